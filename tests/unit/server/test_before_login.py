"""What strangers can do to a broker before they have logged in: nothing. A whole broker in memory, without sockets."""

from __future__ import annotations

import asyncio
import struct
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.broker.apis import APIS
from penstock.core.config.types import ConfigError
from penstock.protocol.codec import encode
from penstock.protocol.framing import encode_request_header
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest
from penstock.security.audit.events import AuditEvent, AuditKind
from penstock.server.net import limits
from penstock.server.net.connection import Connection
from penstock.testing.transports import FakeTransport
from proof.logins.broker import PASSWORD, USER, LoginBroker, running
from tests.unit.server.composed import Ground
from tests.unit.server.harness import frame
from tests.waiting import until

MOST = 2**31 - 1
GET_TELEMETRY, PUSH_TELEMETRY = 71, 72


class Trail:
    kinds = frozenset({AuditKind.LOGIN})
    refuses = False

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


class Stage:
    def __init__(self, broker: LoginBroker) -> None:
        self.broker = broker
        self.trail = Trail()
        assert broker.server.broker.logins is not None
        broker.server.broker.logins.auditor = self.trail
        self.transports: list[FakeTransport] = []

    def connect(self) -> FakeTransport:
        transport = FakeTransport(Connection(self.broker.listener))
        transport.connect()
        self.transports.append(transport)
        return transport

    @staticmethod
    def is_waiting(transport: FakeTransport) -> bool:
        assert isinstance(transport.protocol, Connection)
        return bool(transport.protocol.pending.replies) and not transport.is_closing()

    async def log_in(self, user: str, password: str, mechanism: str = "PLAIN") -> FakeTransport:
        transport = self.connect()
        transport.receive(request(SaslHandshakeRequest(mechanism=mechanism), 1))
        transport.receive(request(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode()), 1))
        for _ in range(5):
            await asyncio.sleep(0)
        return transport


def request(message: Message, version: int, client_id: str = "c") -> bytes:
    kind = type(message)
    header = encode_request_header(kind.API_KEY, version, 1, client_id, version >= kind.FLEXIBLE_FROM)
    return frame(header + encode(message, version))


def on_stage(directory: Path, test: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running(directory) as broker:
            stage = Stage(broker)
            try:
                await test(stage)
            finally:
                for transport in stage.transports:
                    transport.lose()

    asyncio.run(run())


def raw(api_key: int, version: int, body: bytes, *, flexible: bool = False) -> bytes:
    return frame(encode_request_header(api_key, version, 1, "c", flexible) + body)


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


COUNTS = {
    "tags of a header": encode_request_header(18, 3, 1, "c", False) + varint(MOST) + b"\0" * 30_000,
    "tags of a body": encode_request_header(18, 3, 1, "c", True) + b"\2a\2b" + varint(MOST) + b"\0" * 30_000,
    "size of one tag": encode_request_header(18, 3, 1, "c", True) + b"\2a\2b\1\0" + varint(MOST),
    "a name": encode_request_header(18, 3, 1, "c", True) + varint(MOST) + b"a",
    "a mechanism": encode_request_header(17, 1, 1, "c", False) + b"\x7f\xffPLAIN",
    "a client id": struct.pack(">hhih", 17, 1, 1, 32_767) + b"c",
    "topics of metadata": encode_request_header(3, 12, 1, "c", True) + varint(MOST),
    "topics of metadata of old": encode_request_header(3, 1, 1, "c", False) + struct.pack(">i", MOST),
}


@pytest.mark.parametrize("payload", COUNTS.values(), ids=COUNTS)
def test_connection_ends_and_memory_stays_flat_when_a_count_is_a_lie(tmp_path: Path, payload: bytes) -> None:
    """CVE-2026-111108, CVE-2026-111115."""

    async def test(stage: Stage) -> None:
        tracemalloc.start()
        for _ in range(20):
            transport = stage.connect()
            transport.receive(frame(payload))
            assert transport.is_closing()
            assert not transport.sent
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 3_000_000
        assert sum(stage.broker.metrics.sockets.malformed.values()) == 20
        good = await stage.log_in(USER, PASSWORD)
        assert not good.is_closing()

    on_stage(tmp_path, test)


@pytest.mark.parametrize("size", [100 * 1024 * 1024, MOST, 524_289, -1])
def test_connection_ends_and_memory_stays_flat_when_a_large_frame_is_announced(tmp_path: Path, size: int) -> None:
    """CVE-2022-34917."""

    async def test(stage: Stage) -> None:
        tracemalloc.start()
        for _ in range(100):
            transport = stage.connect()
            transport.receive(struct.pack(">i", size) + b"\0\x24\0\0")
            assert transport.is_closing()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 3_000_000
        assert stage.broker.metrics.sockets.malformed == {"frame size": 100}

    on_stage(tmp_path, test)


def test_memory_stays_flat_when_tokens_are_as_long_as_they_may_be(tmp_path: Path) -> None:
    """A first message of SCRAM is kept until the client's proof, and a refused token of OAUTHBEARER must not be."""

    async def test(stage: Stage) -> None:
        long = b"a" * 500_000
        tokens = {
            "SCRAM-SHA-256": b"n,,n=" + long + b",r=abc",
            "SCRAM-SHA-512": b"n,,n=alice,r=abc,x=" + long,
            "OAUTHBEARER": b"n,,\x01auth=Bearer " + long + b"\x01\x01",
        }
        for count in (1, 20):  # the first of each loads what it needs
            tracemalloc.start()
            for mechanism, token in tokens.items():
                for _ in range(count):
                    transport = stage.connect()
                    transport.receive(request(SaslHandshakeRequest(mechanism=mechanism), 1))
                    transport.receive(request(SaslAuthenticateRequest(auth_bytes=token), 2))
            await until(lambda: not any(map(stage.is_waiting, stage.transports)))
            held, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert held < 3_000_000

    on_stage(tmp_path, test)


def test_strangers_do_not_take_the_room_of_others_when_they_send_half_frames(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        listener = stage.broker.listener
        good = await stage.log_in(USER, PASSWORD)
        half = struct.pack(">i", 500_000) + b"\0\x11\0\1" + bytes(400_000)
        strangers = [stage.connect() for _ in range(200)]
        for transport in strangers:
            transport.receive(half)
            await asyncio.sleep(0)
            if transport.is_closing():
                transport.lose()
        assert listener.strangers is not None
        assert listener.strangers.is_full
        assert listener.strangers.size <= limits.STRANGERS_BYTES + 2 * 500_000
        assert stage.broker.metrics.sockets.backlog_evictions == sum(each.is_closing() for each in strangers) > 100
        assert listener.backlog.size == 0, "nothing of it counts against clients that have logged in"
        large = request(MetadataRequest(topics=[MetadataRequestTopic(name="t" * 249)] * 2_000), 8)
        before = len(good.sent)
        assert good.receive(large) == len(large)
        await until(lambda: len(good.sent) > before)
        another = await stage.log_in(USER, PASSWORD)  # a token that comes whole needs no room
        assert not another.is_closing()
        listener.strangers.look()
        listener.strangers.look()
        assert all(transport.is_closing() for transport in strangers), "who does not go on is closed as well"
        for transport in strangers:
            transport.lose()
        assert (listener.strangers.size, listener.strangers.count) == (0, 0)

    on_stage(tmp_path, test)


def test_nothing_is_left_with_the_strangers_when_a_client_has_logged_in(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        listener = stage.broker.listener
        client = stage.connect()
        client.receive(request(SaslHandshakeRequest(mechanism="PLAIN"), 1))
        login = request(SaslAuthenticateRequest(auth_bytes=f"\0{USER}\0{PASSWORD}".encode()), 1)
        client.receive(login[:20])
        assert listener.strangers is not None
        assert listener.strangers.size == 16
        # The rest of the login with half a request behind it, as nobody does.
        client.receive(login[20:] + struct.pack(">i", 1_000_000) + bytes(300_000))
        assert (listener.strangers.size, listener.backlog.size) == (0, 300_000)
        client.lose()
        assert listener.backlog.size == 0

    on_stage(tmp_path, test)


def test_refused_login_is_counted_and_audited_with_one_line_whatever_the_client_calls_itself(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        for user in ("alice", "nobody", "*", "User:alice", "alice\n2026 INFO alice logged in", "a\0b"):
            transport = await stage.log_in(user, "wrong")
            assert transport.is_closing()
        logins = stage.broker.metrics.logins
        assert (logins.failed, logins.succeeded) == (6, 0)
        assert [event.is_allowed for event in stage.trail.events] == [False] * 6
        # A claimed name is nobody's principal, and cannot begin a line.
        assert {event.principal for event in stage.trail.events} == {""}
        assert [event.details.get("claimed") for event in stage.trail.events] == [
            "alice",
            "nobody",
            "*",
            "User:alice",
            r"alice\n2026 INFO alice logged in",
            None,
        ]
        assert {event.rule for event in stage.trail.events} == {"wrong user or password", "the token has 4 parts"}

    on_stage(tmp_path, test)


def test_claimed_name_is_told_when_the_proof_of_scram_is_wrong_or_never_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(stage: Stage) -> None:
        transport = stage.connect()
        transport.receive(request(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1))
        transport.receive(request(SaslAuthenticateRequest(auth_bytes=b"n,,n=mallory" + b"y" * 200 + b",r=abc"), 2))
        assert isinstance(transport.protocol, Connection)
        assert stage.broker.server.broker.logins is not None
        stage.broker.server.broker.logins.expire(transport.protocol.session)
        transport.receive(request(SaslAuthenticateRequest(auth_bytes=b"c=biws,r=abc,p=AAAA"), 2))
        await until(transport.is_closing)
        cut = "mallory" + "y" * 57 + "…"
        assert [(event.principal, event.details) for event in stage.trail.events] == [("", {"claimed": cut})] * 2
        reasons = [record.__dict__.get("reason", "") for record in caplog.records]
        assert any(str(reason).endswith(f"claimed name {cut}") for reason in reasons), reasons

    on_stage(tmp_path, test)


LOOK_ALIKES = (
    "\u0430lice",
    "\uff41lice",
    "alice\u200b",
    "alice\u0301",
    "ALICE",
    "Alice",
    " alice",
    "alice ",
    "alic\u0435",
)


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_name_is_another_users_when_it_only_looks_like_a_users(tmp_path: Path, name: str) -> None:
    async def test(stage: Stage) -> None:
        assert (await stage.log_in(name, PASSWORD)).is_closing()
        logins = stage.broker.server.broker.logins
        assert logins is not None
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            server = logins.mechanisms("SASL_PLAINTEXT")[mechanism]
            answers = {user: server.begin(0).respond(f"n,,n={user},r=abc".encode()) for user in (USER, name)}
            salts = {
                user: bytes(answer).split(b",")[1] for user, answer in answers.items() if isinstance(answer, bytes)
            }
            assert salts[USER] != salts[name]

    on_stage(tmp_path, test)


def test_nothing_is_served_before_the_login_whatever_is_asked(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        for key, api in APIS.items():
            if key in (SaslHandshakeRequest.API_KEY, ApiVersionsRequest.API_KEY):
                continue
            transport = stage.connect()
            transport.receive(raw(key, api.max_version, b"\0" * 50, flexible=True))
            assert transport.is_closing(), api.name
            assert not transport.sent, api.name
        good = await stage.log_in(USER, PASSWORD)
        before = len(good.sent)
        good.receive(request(MetadataRequest(topics=[]), 12))
        assert len(good.sent) > before

    on_stage(tmp_path, test)


def test_telemetry_is_not_served() -> None:
    """CVE-2026-111073 needs a broker that opens what clients push. Whoever adds it here has to bound it."""
    assert not {GET_TELEMETRY, PUSH_TELEMETRY} & APIS.keys()


# ---------------------------------------------------------------------------------- starts that must fail

SASL = {"listeners": "PLAINTEXT://127.0.0.1:9091,SASL_PLAINTEXT://127.0.0.1:9092"}
KEY = "sasl.oauthbearer.jwks.endpoint.url"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {KEY: "https://issuer.test/jwks"},
        {KEY: "file:///etc/passwd"},
        {KEY: "file:///does/not/exist.json", "penstock.sasl.oauthbearer.allowed.files": "/does/not"},
        {KEY: "http://169.254.169.254/", "penstock.sasl.oauthbearer.allowed.urls": "http://169.254.169.254/"},
    ],
    ids=["no keys", "a URL not allowed", "a file not allowed", "a missing file", "link-local"],
)
def test_broker_does_not_start_when_tokens_could_not_be_checked(settings: dict[str, str]) -> None:
    """CVE-2026-110985, CVE-2025-27817."""

    async def run() -> None:
        with pytest.raises(ConfigError, match=KEY.replace(".", r"\.")):
            await Ground().start({**SASL, "sasl.enabled.mechanisms": "OAUTHBEARER", **settings})

    asyncio.run(run())
