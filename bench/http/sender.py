"""A lean HTTP/1.1 client: prepared requests on a few kept connections, so that the server is what is measured."""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from bench.errors import BenchError

_HEADER_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go; with a user they carry a login, with `trusted` (a PEM file) they are encrypted."""

    url: str
    user: tuple[str, str] | None = None
    trusted: str | None = None

    def request(self, method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> bytes:
        parts = urlsplit(self.url)
        lines = [f"{method} {parts.path}{path} HTTP/1.1", f"Host: {parts.netloc}"]
        if body:
            lines += [f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
        if self.user is not None:
            lines.append(f"Authorization: Basic {base64.b64encode(':'.join(self.user).encode()).decode()}")
        return "\r\n".join([*lines, "", ""]).encode() + body

    @property
    def tls(self) -> ssl.SSLContext | None:
        return None if self.trusted is None else ssl.create_default_context(cafile=self.trusted)


@dataclass(slots=True)
class Sent:
    seconds: float = 0.0
    times_us: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return len(self.times_us) / self.seconds

    def percentile_ms(self, share: float) -> float:
        return sorted(self.times_us)[int(len(self.times_us) * share)] / 1000


def send_all(target: Target, requests: Sequence[bytes], connections: int) -> Sent:
    """Each connection sends its next request when the last one is answered. BenchError for any status but 2xx."""
    return asyncio.run(_send_all(target, requests, connections))


async def _send_all(target: Target, requests: Sequence[bytes], connections: int) -> Sent:
    parts = urlsplit(target.url)
    sent, left = Sent(), iter(requests)
    opened = [
        await asyncio.open_connection(parts.hostname, parts.port, ssl=target.tls, limit=1 << 24)
        for _ in range(connections)
    ]
    begun = time.perf_counter()
    try:
        await asyncio.gather(*(_send(reader, writer, left, sent) for reader, writer in opened))
        sent.seconds = time.perf_counter() - begun
    finally:
        for _, writer in opened:
            writer.close()
    return sent


async def _send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: Iterator[bytes], sent: Sent) -> None:
    for request in left:
        begun = time.perf_counter_ns()
        writer.write(request)
        head = await reader.readuntil(_HEADER_END)
        length = _content_length(head)
        body = await reader.readexactly(length)
        if head[9:10] != b"2":
            raise BenchError(f"{head.split(bytes([13]), 1)[0].decode()}: {body[:300].decode(errors='replace')}")
        sent.times_us.append((time.perf_counter_ns() - begun) / 1000)


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        if line.lower().startswith(_LENGTH):
            return int(line[len(_LENGTH) :])
    if head.startswith(b"HTTP/1.1 204"):
        return 0
    raise BenchError("an answer without a length")
