"""Threads for steps of logins that take long: issuers that are asked for keys, keytabs, tickets.

There are a few of them, so that an issuer that does not answer takes no more.
"""

from __future__ import annotations

from concurrent.futures import Future

from penstock.core.daemon_threads import DaemonThreads
from penstock.security.sasl.exchange import LoginError, Slow


class LoginThreads:
    def __init__(self, most: int, name: str) -> None:
        self._threads = DaemonThreads(most, f"penstock-login-{name}")
        self._is_closed = False

    def submit(self, step: Slow) -> Future[bytes]:
        """Called by one thread alone, the loop's. After `close` every step fails with LoginError."""
        if not self._is_closed:
            return self._threads.submit(step)
        future: Future[bytes] = Future()
        future.set_exception(LoginError("the broker stops"))
        return future

    def close(self) -> None:
        """Nobody waits for the threads, nor for what they have not begun."""
        self._is_closed = True
        self._threads.close()
