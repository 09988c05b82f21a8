"""TLS between a socket and a connection: bytes of the socket in, requests out; replies in, bytes for the socket out.

`TlsLink` is the protocol of the real transport, and the transport of an ordinary `Connection`, which therefore knows
nothing of TLS. Driving OpenSSL here and not by `loop.start_tls` was measured (uvloop 0.22, P-256, two busy cores):

                                               start_tls           here
    CPU of a 100 B request with its reply      10 to 14 us         11 us       (plain: 5)
    its 99th percentile for the client         26 to 72 us         40 to 81 us
    CPU of 1 MiB in                            1.2 to 1.4 ms       1.1 to 1.6 ms
    CPU of 1 MiB out                           1.4 to 1.9 ms       1.5 to 1.7 ms
    CPU of a connect, both flights             0.48 to 0.55 ms     0.42 to 0.53 ms
    buffers of a connection                    256 KiB             at most 2 x 20 KiB, those of its largest record

So both are equally fast, and memory decides. A half-finished handshake holds 48 KB in OpenSSL, one that is over 19 KB.
The loop's own TLS adds its buffer to both. It would also tell us of a client only after the handshake, out of reach of
every limit.

Rules:
- The first byte tells TLS from plain text. It is read alone: before the client has a place nothing is kept.
- Bytes that came before the end of the handshake are never a request (CVE-2023-40217): they pass through OpenSSL.
- While the connection does not read, decrypted bytes stay in OpenSSL and the rest stays encrypted, one read at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import functools
import ssl
from typing import Any, cast

from penstock.server.net import limits
from penstock.server.net.connection import Connection
from penstock.server.net.handshakes import Outcome, Work
from penstock.server.net.tls_port import TlsPort, failure_kind, failure_reason

_HANDSHAKE_RECORD = 0x16
_ENCRYPTED = object()  # says so before there is an SSLObject
_NO_EXTRA: dict[str, Any] = {}  # one for all links, instead of one for each


class _State(enum.Enum):
    SILENT = enum.auto()
    WAITING = enum.auto()
    SHAKING = enum.auto()
    OPEN = enum.auto()
    OVER = enum.auto()


def _step(established: ssl.SSLObject) -> Outcome:
    """OpenSSL lets other threads run meanwhile."""
    try:
        established.do_handshake()
    except ssl.SSLWantReadError:
        return False
    except Exception as error:  # noqa: BLE001 - OpenSSL's are OSErrors; after any other, too, the others go on
        return error
    return True


class TlsLink(asyncio.Transport, asyncio.BufferedProtocol):
    __slots__ = (
        "_connection",
        "_handshake_bytes",
        "_has_begun",
        "_has_ended",
        "_incoming",
        "_is_paused",
        "_is_stepping",
        "_outgoing",
        "_port",
        "_raw",
        "_ssl",
        "_state",
        "_undecrypted",
        "address",
    )

    def __init__(self, port: TlsPort) -> None:
        super().__init__(_NO_EXTRA)
        self._port = port
        self._connection = Connection(port)
        self._raw: asyncio.Transport | None = None
        self._ssl: ssl.SSLObject | None = None
        self._incoming: ssl.MemoryBIO | None = None
        self._outgoing: ssl.MemoryBIO | None = None
        self._state = _State.SILENT
        self._has_begun = False  # the first byte has come, and waits
        self._handshake_bytes = 0
        self._is_stepping = False  # OpenSSL is at work in a thread, and its buffers must be left alone
        self._is_paused = False
        self._has_ended = False  # the client has said that nothing more comes
        self._undecrypted = b""  # arrived while the connection did not read, or a step was under way
        self.address = ""

    # ------------------------------------------------------------------------------- protocol of the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast("asyncio.Transport", transport)
        self._connection.connection_made(self)
        if self._state is not _State.OVER:  # the listener has room for it
            self.address = self._connection.session.client_host
            self._port.handshakes.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._state in (_State.WAITING, _State.SHAKING):
            self._port.handshake_failed(self._connection, "ended", "the client went away")
        self._state = _State.OVER
        self._port.handshakes.remove(self)
        self._ssl = self._incoming = self._outgoing = None
        self._undecrypted = b""
        self._connection.connection_lost(exc)
        # Link and connection know each other, and would wait for the garbage collector, which a broker lets run rarely.
        # Nothing asks for the connection in this state.
        del self._connection

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._state is _State.OPEN:
            return self._port.encrypted_buffer
        size = 1 if self._state is _State.SILENT else limits.HANDSHAKE_READ_SIZE
        return self._port.encrypted_buffer[:size]

    def buffer_updated(self, nbytes: int) -> None:
        if self._state is _State.OPEN:
            self._decrypt(self._port.encrypted_buffer[:nbytes])
        elif self._state is _State.SILENT:
            if self._port.encrypted_buffer[0] != _HANDSHAKE_RECORD:
                self._fail("plain text", "the client does not speak TLS")
            elif self._is_paused and self._raw is not None:  # uvloop had begun to read a client that is held back
                self._has_begun = True
                self._raw.pause_reading()
            else:
                self._request_place()
        elif self._state is _State.SHAKING:
            assert self._incoming is not None
            self._connection.idle_rounds = 0
            self._handshake_bytes += nbytes
            if self._handshake_bytes > limits.HANDSHAKE_BYTES:
                self._fail("size", f"more than {limits.HANDSHAKE_BYTES} bytes")
                return
            if self._is_stepping:
                self._undecrypted += self._port.encrypted_buffer[:nbytes]
                assert self._raw is not None
                self._raw.pause_reading()  # what follows may be requests, and is not for these small reads
                return
            self._incoming.write(self._port.encrypted_buffer[:nbytes])
            self._port.handshakes.request_step(self)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    # -------------------------------------------------------------------------------------------- handshake

    def _request_place(self) -> None:
        assert self._raw is not None
        self._state = _State.WAITING
        if self._port.handshakes.request_place(self):
            self.start_handshake()
        else:
            self._raw.pause_reading()

    def start_handshake(self) -> None:
        assert self._raw is not None
        self._raw.resume_reading()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = self._port.tls.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._incoming.write(bytes((_HANDSHAKE_RECORD,)))
        self._handshake_bytes = 1
        self._state = _State.SHAKING

    def begin_step(self) -> Work:
        """Costs 0.2 ms in all for a client without a certificate, 0.8 ms for a client with one."""
        self._is_stepping = True
        assert self._ssl is not None
        return functools.partial(_step, self._ssl)

    def end_step(self, outcome: Outcome) -> None:
        self._is_stepping = False
        self._flush()  # where the handshake failed this is the alert that tells the client
        if isinstance(outcome, Exception):
            self._fail(failure_kind(outcome), failure_reason(outcome))
        elif not outcome:
            if self._undecrypted:  # came during the step
                assert self._raw is not None
                assert self._incoming is not None
                self._incoming.write(self._undecrypted)
                self._undecrypted = b""
                self._raw.resume_reading()
                self._port.handshakes.request_step(self)
        elif (refusal := self._port.identify(self._connection, cast("ssl.SSLObject", self._ssl))) is not None:
            self._fail(refusal.kind, refusal.reason)
        else:
            self._state = _State.OPEN
            self._port.handshakes.remove(self)
            self._port.metrics.handshakes += 1
            self._go_on()  # a client sends its first request with the end of the handshake

    def expire_handshake(self) -> None:
        if self._state is _State.SILENT and self._connection.unmuting is not None:  # it was we who did not read
            self._port.handshakes.add(self)
        elif self._state is not _State.OVER:
            reason = "the client sent nothing" if self._state is _State.SILENT else "the client took too long"
            self._port.handshake_failed(self._connection, "timeout", reason)
            self._state = _State.OVER
            self.abort()

    def _fail(self, kind: str, reason: str) -> None:
        self._port.handshake_failed(self._connection, kind, reason)
        self._state = _State.OVER
        self._port.handshakes.remove(self)
        assert self._raw is not None
        self._raw.close()

    # -------------------------------------------------------------------------------------------- decrypting

    def _decrypt(self, data: memoryview) -> None:
        """Hands what the bytes contain to the connection, several records at a time where they come together: a call
        for each record of 16 KiB would cost a tenth of the throughput.
        """
        assert self._ssl is not None
        assert self._incoming is not None
        incoming, decrypted, connection = self._incoming, self._ssl, self._connection
        position, size = 0, len(data)
        room = connection.get_buffer(-1)
        filled = 0
        while self._state is _State.OPEN and not self._has_ended:
            # An exception of OpenSSL would say the same, and take 2 us.
            if not incoming.pending and not decrypted.pending():
                if position == size:
                    break
                incoming.write(data[position : position + limits.TLS_RECORD_SIZE])
                position = min(position + limits.TLS_RECORD_SIZE, size)
            received = self._read(room[filled:] if filled else room)
            filled += received
            if filled == len(room):
                connection.buffer_updated(filled)
                filled = 0
                if self._is_paused:
                    break
                room = connection.get_buffer(-1)
        if filled and self._state is _State.OPEN:
            connection.buffer_updated(filled)
        if self._has_ended and not self._is_paused:  # what came ahead of the end has been served
            self.close()
        elif position < size and self._state is _State.OPEN:
            self._undecrypted = bytes(data[position:])

    def _read(self, room: memoryview) -> int:
        """How much was decrypted: nothing where OpenSSL needs more, or the client has ended or broken off."""
        assert self._ssl is not None
        try:
            received = cast("int", self._ssl.read(len(room), cast("bytearray", room)))
        except ssl.SSLWantReadError:
            return 0
        except ssl.SSLError as error:
            self._port.malformed(self._connection, "tls", error.reason or str(error))
            self.abort()
            return 0
        self._has_ended = not received
        return received

    def _go_on(self) -> None:
        if (
            self._state is _State.SILENT and not self._is_paused
        ):  # the client came faster than it may, and was held back
            assert self._raw is not None
            if self._has_begun:
                self._request_place()
            else:
                self._raw.resume_reading()
        if self._state is not _State.OPEN or self._is_paused:
            return
        data, self._undecrypted = self._undecrypted, b""
        self._decrypt(memoryview(data))
        if not self.is_closing() and not self._is_paused:
            assert self._raw is not None
            self._raw.resume_reading()

    # ------------------------------------------------------------------------------- transport of the connection

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self._ssl or _ENCRYPTED
        assert self._raw is not None
        return self._raw.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert self._raw is not None
        self._raw.set_write_buffer_limits(high, low)

    def is_closing(self) -> bool:
        return self._raw is None or self._raw.is_closing()

    def pause_reading(self) -> None:
        self._is_paused = True
        if self._raw is not None and not self._raw.is_closing():
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        """What waits in memory comes first, in a turn of its own: the connection is in the middle of something."""
        if self._is_paused:
            self._is_paused = False
            asyncio.get_running_loop().call_soon(self._go_on)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert self._raw is not None
        if self._ssl is None or self._outgoing is None or self._raw.is_closing():
            return
        try:
            if len(data) <= limits.TLS_PIECE_SIZE:
                self._ssl.write(data)
                self._raw.write(self._outgoing.read())
                return
            pieces, view = [], memoryview(data)
            for start in range(0, len(view), limits.TLS_PIECE_SIZE):
                self._ssl.write(view[start : start + limits.TLS_PIECE_SIZE])
                pieces.append(self._outgoing.read())
        except ssl.SSLError as error:
            self._port.malformed(self._connection, "tls", error.reason or str(error))
            self.abort()
            return
        self._raw.write(b"".join(pieces))

    def _flush(self) -> None:
        assert self._raw is not None
        assert self._outgoing is not None
        if self._outgoing.pending and not self._raw.is_closing():
            self._raw.write(self._outgoing.read())

    def close(self) -> None:
        """Tells the client that nothing more comes, and closes once what was written is out."""
        if self._raw is None:
            return
        if self._state is _State.OPEN and self._ssl is not None:
            with contextlib.suppress(ssl.SSLError):
                self._ssl.unwrap()
            self._flush()
            self._state = _State.OVER
        self._raw.close()

    def abort(self) -> None:
        if self._state is not _State.OPEN:
            self._port.handshakes.remove(self)  # or a step that is under way would still open it
        self._state = _State.OVER
        if self._raw is not None:
            self._raw.abort()
