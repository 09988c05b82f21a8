"""Threads for steps of logins that take long: issuers that are asked for keys, keytabs, tickets.

There are a few of them, so that an issuer that does not answer takes no more. They end with the process, whatever they
wait for: Python's own pool would keep a broker from stopping until the last step has come back.
"""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future

from penstock.security.sasl.exchange import Slow

_Work = tuple[Slow, "Future[bytes]"]


class LoginThreads:
    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()

    def submit(self, step: Slow) -> Future[bytes]:
        """Called by one thread alone, the loop's."""
        future: Future[bytes] = Future()
        self._work.put((step, future))
        if self._count < self._most:
            self._count += 1
            threading.Thread(target=self._run, name=f"penstock-login-{self._count}", daemon=True).start()
        return future

    def close(self) -> None:
        """Nobody waits for the threads, nor for what they have not begun."""
        for _ in range(self._count):
            self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            step, future = work
            if not future.set_running_or_notify_cancel():
                continue
            try:
                token = step()
            except BaseException as error:  # noqa: BLE001  # handed to whoever waits for the step
                future.set_exception(error)
            else:
                future.set_result(token)
