"""An HTTP listener with a few pages, and clients that send exactly the bytes they are told to."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from penstock.core.metrics.counters import HttpMetrics
from penstock.http.limits import HttpLimits
from penstock.http.routes import Route
from penstock.http.server import HttpSecurity, HttpServer
from penstock.security.audit.events import NO_AUDIT, Auditor
from penstock.security.tls.contexts import load_server
from penstock.security.tls.settings import TlsSettings

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

Result = TypeVar("Result")
PATIENCE_S = 20.0


class Answer(NamedTuple):
    status: int
    headers: str
    body: bytes


async def hello(request: Request) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse({"hello": request.path_params.get("name", "world"), "principal": request.state.principal})


async def echo(request: Request) -> Response:
    from starlette.responses import Response

    return Response(await request.body())


async def count(request: Request) -> Response:
    """Tells how much has come while it comes."""
    from starlette.responses import StreamingResponse

    async def sizes() -> AsyncIterator[bytes]:
        size = 0
        async for piece in request.stream():
            size += len(piece)
            yield b"%d\n" % size

    return StreamingResponse(sizes(), media_type="text/plain")


async def ignore(_: Request) -> Response:
    from starlette.responses import Response

    return Response("not looked at")


async def numbers(_: Request) -> Response:
    from starlette.responses import StreamingResponse

    async def lines() -> AsyncIterator[bytes]:
        for number in range(3):
            yield b"%d\n" % number

    return StreamingResponse(lines(), media_type="application/x-ndjson")


async def flood(_: Request) -> Response:
    from starlette.responses import StreamingResponse

    async def lines() -> AsyncIterator[bytes]:
        while True:
            yield bytes(65_536)

    return StreamingResponse(lines())


async def fail(_: Request) -> Response:
    raise RuntimeError("a defect")


ROUTES = (
    Route("/", hello),
    Route("/hello/{name}", hello),
    Route("/echo", echo, ("POST",)),
    Route("/ignore", ignore, ("POST",)),
    Route("/upload/{name}", count, ("POST",), limits=HttpLimits(max_body_bytes=8 << 20)),
    Route("/numbers", numbers),
    Route("/flood", flood),
    Route("/fail", fail),
    Route("/health", hello, is_public=True),
)


class Listening(NamedTuple):
    server: HttpServer
    metrics: HttpMetrics

    @property
    def port(self) -> int:
        return self.server.port

    async def connect(self, tls: ssl.SSLContext | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=tls)

    async def send(self, *pieces: bytes, tls: ssl.SSLContext | None = None) -> Answer:
        """Sends the pieces and reads until the server closes the connection, or for as long as the patience lasts."""
        return parse(await self.send_raw(*pieces, tls=tls))

    async def send_raw(self, *pieces: bytes, tls: ssl.SSLContext | None = None) -> bytes:
        reader, writer = await self.connect(tls)
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            async with asyncio.timeout(PATIENCE_S):
                return await reader.read()
        finally:
            writer.transport.abort()

    async def get(self, path: str, *headers: str, tls: ssl.SSLContext | None = None) -> Answer:
        lines = "".join(f"{header}\r\n" for header in headers)
        return await self.send(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{lines}\r\n".encode(), tls=tls)


def parse(data: bytes) -> Answer:
    head, _, body = data.partition(b"\r\n\r\n")
    return Answer(int(head.split()[1]) if head else 0, head.decode().lower(), body)


def with_listener(
    use: Callable[[Listening], Awaitable[Result]],
    limits: HttpLimits | None = None,
    security: HttpSecurity | None = None,
    auditor: Auditor = NO_AUDIT,
) -> Result:
    metrics = HttpMetrics()
    server = HttpServer("test", ROUTES, security, limits=limits, metrics=metrics, auditor=auditor)
    return run_listening(server, use, metrics)


def run_listening(
    server: HttpServer,
    use: Callable[[Listening], Awaitable[Result]],
    metrics: HttpMetrics | None = None,
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> Result:
    async def run() -> Result:
        await server.start("127.0.0.1", 0)
        try:
            return await use(Listening(server, metrics or HttpMetrics()))
        finally:
            await server.stop()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(run())


# ------------------------------------------------------------------------------------------------- certificates


class Papers(NamedTuple):
    """PEM files: an authority, and a certificate of it, with its key before it."""

    authority: Path
    certificate: Path


def make_papers(directory: Path, name: str) -> Papers:
    """An authority and a certificate for this machine, which also serves as a client's."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    now = datetime.datetime.now(datetime.UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    builders = [
        x509.CertificateBuilder()
        .subject_name(named(subject))
        .issuer_name(named(f"{name} authority"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        for subject, key in zip((f"{name} authority", name), keys, strict=True)
    ]
    authority = builders[0].add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    addresses = x509.SubjectAlternativeName(
        [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    )
    certificate = builders[1].add_extension(addresses, critical=False)
    papers = Papers(directory / f"{name}-ca.pem", directory / f"{name}.pem")
    signed = [
        builder.sign(keys[0], hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        for builder in (authority, certificate)
    ]
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    papers.authority.write_bytes(signed[0])
    papers.certificate.write_bytes(keys[1].private_bytes(pem, form, serialization.NoEncryption()) + signed[1])
    return papers


def server_context(own: Papers, client: Papers | None = None) -> ssl.SSLContext:
    """With `client` clients need a certificate of that authority."""
    properties = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(own.certificate)}
    if client is not None:
        properties |= {
            "ssl.client.auth": "required",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(client.authority),
        }
    return load_server(TlsSettings.of_properties(properties)).context


def client_context(trusted: Papers, own: Papers | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=trusted.authority)
    if own is not None:
        context.load_cert_chain(own.certificate)
    return context
