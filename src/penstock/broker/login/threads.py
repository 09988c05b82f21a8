"""Threads for slow steps of logins: requests for an issuer's keys, keytabs, tickets.

Their number is small, so that an issuer that does not answer takes no more than these threads.
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
        """Only the loop's thread may call this. After `close` every step fails with LoginError."""
        if not self._is_closed:
            return self._threads.submit(step)
        future: Future[bytes] = Future()
        future.set_exception(LoginError("the broker stops"))
        return future

    def close(self) -> None:
        """Returns at once: waits neither for running threads nor for queued work."""
        self._is_closed = True
        self._threads.close()
