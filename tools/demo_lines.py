"""Access-log lines of a busy web server, endless, and the same again for the same seed and clock.

Each line carries its number in the request path (`id=17`), so that whoever finds it again can say which one it was.
About one in a hundred is malformed, one in twenty is late. A few microseconds a line: one core feeds several jobs.
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import lru_cache
from random import Random

# Late lines stay within what the job waits for (`lateness` of the job, ten minutes): its counts lose none of them.
LATEST_S = 300
MALFORMED_PER_1024 = 10
LATE_PER_1024 = 51

_ID = re.compile(rb"id=([0-9]+)")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_VISITORS = 2048
_PAGES = (
    "GET /", "GET /login", "POST /login", "GET /products", "GET /products/42", "GET /cart", "POST /cart", "GET /search",
    "GET /img/logo.png", "GET /css/site.css", "GET /js/app.js", "GET /admin", "GET /api/orders", "POST /api/orders",
    "HEAD /health", "DELETE /api/orders/7",
)  # fmt: skip
_STATUSES = (200, 200, 200, 200, 200, 200, 200, 200, 200, 304, 304, 302, 404, 404, 403, 500)
_AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64)",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64)",
    "curl/8.5.0",
    'Bot \\"quoted\\" (+https://bot.example)',
)


class Kind(IntEnum):
    CLEAN = 0
    FRAUD = 1
    MALFORMED = 2


class LogLines:
    """`blocks` are what counts as fraud: first octets or CIDR blocks. They are judged by the standard library's
    `ipaddress`, not by the lookup of the job, so that each checks the other."""

    def __init__(self, blocks: Sequence[str], seed: int = 1, now: Callable[[], float] = time.time) -> None:
        self._networks = [ipaddress.ip_network(f"{block}.0.0.0/8" if block.isdigit() else block) for block in blocks]
        self._random = Random(seed)
        self._now = now
        self._visitors = [self._stranger() for _ in range(_VISITORS)]
        # What each line is, by its number: all there is to know about the lines that were made.
        self.kinds = bytearray()

    def take(self, count: int) -> list[bytes]:
        """The next lines. Everything random about an ordinary one comes from one number of 64 bits."""
        second = int(self._now())
        current = _stamp(second)
        bits = self._random.getrandbits
        lines = []
        for number in range(len(self.kinds), len(self.kinds) + count):
            dice = bits(64)
            lot = dice & 1023
            if dice >> 10 & 7:
                # The product of two even draws favours the first visitors: some come often, most seldom.
                address, is_fraud = self._visitors[(dice >> 13 & 2047) * (dice >> 24 & 2047) >> 11]
            else:
                address, is_fraud = self._stranger()
            if lot < MALFORMED_PER_1024:
                lines.append(_malformed(lot % len(_MALFORMED), address, current, number))
                self.kinds.append(Kind.MALFORMED)
                continue
            is_late = lot < MALFORMED_PER_1024 + LATE_PER_1024
            stamp = _stamp(second - (dice >> 35) % LATEST_S) if is_late else current
            page, status, size = _PAGES[dice >> 44 & 15], _STATUSES[dice >> 48 & 15], dice >> 52
            agent = _AGENTS[dice >> 40 & 3]
            lines.append(
                f'{address} - - [{stamp}] "{page}?id={number} HTTP/1.1" {status} {size} "-" "{agent}"'.encode()
            )
            self.kinds.append(is_fraud)
        return lines

    def is_fraud(self, address: str) -> bool:
        known = ipaddress.ip_address(address)
        return any(known in network for network in self._networks)

    def _stranger(self) -> tuple[str, bool]:
        # From 1.0.0.0 on: nobody comes from 0.0.0.0/8.
        address = str(ipaddress.IPv4Address(self._random.randrange(1 << 24, 1 << 32)))
        return address, self.is_fraud(address)


def id_of(line: bytes) -> int:
    """The number of a line that is met again; -1 where it has none."""
    found = _ID.search(line)
    return int(found[1]) if found else -1


@lru_cache(maxsize=2 * LATEST_S)
def _stamp(second: int) -> str:
    """As Apache writes it, in English whatever the locale says."""
    at = time.gmtime(second)
    clock = f"{at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02}"
    return f"{at.tm_mday:02}/{_MONTHS[at.tm_mon - 1]}/{at.tm_year}:{clock} +0000"


# What goes wrong with a log: a write cut off, a mad clock, a field of the wrong kind, another program's words, noise.
_MALFORMED = (
    b'%(address)s - - [%(stamp)s] "GET /cut?id=%(number)d',
    b'%(address)s - - [99/Foo/2026:25:61:61 +0000] "GET /clock?id=%(number)d HTTP/1.1" 200 17 "-" "-"',
    b'%(address)s - - [%(stamp)s] "GET /status?id=%(number)d HTTP/1.1" fine 17 "-" "-"',
    b"worker of %(address)s ended by signal 9, id=%(number)d",
    b"\x00\xff\xfe%(address)s\xc3\x28 id=%(number)d",
)


def _malformed(variant: int, address: str, stamp: str, number: int) -> bytes:
    values = {b"address": address.encode(), b"stamp": stamp.encode(), b"number": number}
    return _MALFORMED[variant] % values
