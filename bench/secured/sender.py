"""A client that floods a port with TLS handshakes, in a process of its own: `python -m bench.secured.sender PORT FORM`.

Two forms:
- handshakes: whole handshakes, many at once; the connection is closed when the handshake is over.
- hellos: the first message of a handshake, made once, and the end of the connection right after it. The sender does no
  cryptography, so each attempt costs the sender far less than the broker.

The sender is held to a quarter of a core by itself: it compares the processor time that it has used, the kernel's part
included, with the time that has passed, and sleeps for as long as it is ahead. So the pauses are short and follow each
other closely. A quota of the kernel (cgroups) would let the sender run at full speed for 25 of 100 ms.

Prints a line when it begins, ends when its standard input does, and then prints what it did.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import ssl
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Self

from bench.errors import BenchError

HOST = "127.0.0.1"
SHARE = 0.25
# What the sender may catch up on, when the broker kept it waiting; more would be a burst at full speed.
MOST_BEHIND_S = 0.01
AT_ONCE = 32
WAIT_S = 0.1
HANDSHAKES, HELLOS = "handshakes", "hellos"
FORMS = (HANDSHAKES, HELLOS)


class Pace:
    """How long to sleep, by the processor time used and the time passed since the start."""

    def __init__(self, share: float = SHARE) -> None:
        self._share = share
        self._forgotten_s = 0.0

    def pause_s(self, used_s: float, passed_s: float) -> float:
        ahead_s = used_s / self._share - (passed_s - self._forgotten_s)
        if ahead_s < -MOST_BEHIND_S:
            self._forgotten_s += -ahead_s - MOST_BEHIND_S
        return max(ahead_s, 0.0)


class Sending:
    def __init__(self, port: int, ending: threading.Event) -> None:
        self._port = port
        self._ending = ending
        self._pace = Pace()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE
        self._begun = time.monotonic()
        self._used_before_s = time.process_time()
        self.attempts = self.finished = 0

    def run(self, form: str) -> dict[str, float]:
        if form == HELLOS:
            self._send_hellos()
        else:
            self._shake_hands()
        return {
            "attempts": self.attempts,
            "finished": self.finished,
            "cores": self._used_s() / self._passed_s(),
            "seconds": self._passed_s(),
        }

    def _used_s(self) -> float:
        return time.process_time() - self._used_before_s

    def _passed_s(self) -> float:
        return time.monotonic() - self._begun

    def _rest(self) -> None:
        pause_s = self._pace.pause_s(self._used_s(), self._passed_s())
        if pause_s:
            time.sleep(pause_s)

    def _send_hellos(self) -> None:
        hello = first_message(self._context)
        while not self._ending.is_set():
            client = self._connect()
            if client is not None:
                with client, contextlib.suppress(OSError):
                    client.send(hello)
                    self.finished += 1
            self._rest()

    def _shake_hands(self) -> None:
        selector = selectors.DefaultSelector()
        while not self._ending.is_set():
            if len(selector.get_map()) < AT_ONCE:
                self._begin(selector)
            is_full = len(selector.get_map()) >= AT_ONCE
            for key, _ in selector.select(WAIT_S if is_full else 0):
                client = key.fileobj
                assert isinstance(client, ssl.SSLSocket)
                try:
                    client.do_handshake()
                    self.finished += 1
                except ssl.SSLWantReadError:
                    continue
                except OSError:
                    pass
                selector.unregister(client)
                client.close()
            self._rest()
        for key in list(selector.get_map().values()):
            client = key.fileobj
            assert isinstance(client, ssl.SSLSocket)
            client.close()

    def _begin(self, selector: selectors.BaseSelector) -> None:
        plain = self._connect()
        if plain is None:
            return
        client = self._context.wrap_socket(plain, do_handshake_on_connect=False)
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        selector.register(client, selectors.EVENT_READ)

    def _connect(self) -> socket.socket | None:
        """None where the port is closed or its queue is full. On one machine a connection is there when the call
        returns, and a sender that waits for its turn would be no flood.
        """
        self.attempts += 1
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex((HOST, self._port))
        try:
            client.getpeername()
        except OSError:
            client.close()
            return None
        return client


def first_message(context: ssl.SSLContext) -> bytes:
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


class Sender:
    """The process; it sends while the block runs."""

    def __init__(self, port: int, form: str) -> None:
        command = [sys.executable, "-m", "bench.secured.sender", str(port), form]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.finished_a_second = 0.0
        self.cores = 0.0

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise BenchError("the sender of handshakes did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            said, _ = self._process.communicate(timeout=60)  # closes its standard input
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise BenchError("the sender of handshakes did not end") from None
        if error is None:
            if self._process.returncode != 0:
                raise BenchError("the sender of handshakes failed")
            done = json.loads(said)
            self.finished_a_second = done["finished"] / done["seconds"]
            self.cores = done["cores"]


def main(arguments: list[str]) -> int:
    port, form = arguments
    ending = threading.Event()

    def await_end() -> None:
        sys.stdin.read()
        ending.set()

    threading.Thread(target=await_end, daemon=True).start()
    sending = Sending(int(port), ending)
    print("begun", flush=True)
    print(json.dumps(sending.run(form)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
