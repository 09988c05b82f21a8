"""Threads for steps of logins that take long: issuers that are asked for keys, keytabs, tickets.

There are a few of them, so that an issuer that does not answer takes no more. They end with the process, whatever they
wait for: Python's own pool would keep a broker from stopping until the last step has come back.
"""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future

from penstock.security.sasl.exchange import LoginError, Slow

_Work = tuple[Slow, "Future[bytes]"]


class LoginThreads:
    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._count = 0
        self._is_closed = False
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()

    def submit(self, step: Slow) -> Future[bytes]:
        """Called by one thread alone, the loop's. After `close` every step fails with LoginError."""
        future: Future[bytes] = Future()
        if self._is_closed:
            future.set_exception(LoginError("the broker stops"))
            return future
        self._work.put((step, future))
        if self._count < self._most:
            self._count += 1
            name = f"penstock-login-{self._name}-{self._count}"
            threading.Thread(target=self._run, name=name, daemon=True).start()
        return future

    def close(self) -> None:
        """Nobody waits for the threads, nor for what they have not begun."""
        self._is_closed = True
        for _ in range(self._count):
            self._work.put(None)

    def _run(self) -> None:
        while self._run_next():
            pass

    def _run_next(self) -> bool:
        """Whether there was a step. It holds a client's token, so nothing of it is kept while the thread waits for the
        next. An error holds the variables of this call, so they are deleted.
        """
        work = self._work.get()
        if work is None:
            return False
        step, future = work
        try:
            if future.set_running_or_notify_cancel():
                future.set_result(step())
        except BaseException as error:  # noqa: BLE001  # handed to whoever waits for the step
            future.set_exception(error)
        finally:
            del work, step, future
        return True
