"""SCRAM, both sides against each other and against another implementation of it."""

from __future__ import annotations

import base64
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scramp import ScramClient, ScramException, ScramMechanism

from penstock.security.sasl import scram
from penstock.security.sasl.exchange import ClientExchange, LoginError, ServerExchange, Step
from penstock.security.sasl.scram import SCRAM_HASHES, SHA_256, ScramCredential, ScramHash, make_credential
from penstock.security.sasl.scram_client import ScramClientExchange, ScramCredentials
from penstock.security.sasl.scram_server import ScramServer, ScramUsers

HASHINGS = list(SCRAM_HASHES.values())
# SCRAM leaves names and passwords as they are, as Kafka does; the other implementation prepares them (RFC 4013), which
# changes nothing about these.
ASCII = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
SALT = b"a salt of some length"


def make_server(hashing: ScramHash, users: dict[str, str]) -> ScramServer:
    credentials = {user: credential_of(hashing, password) for user, password in users.items()}
    chance = random.Random(5)
    return ScramServer(
        hashing, ScramUsers(lambda user, _: credentials.get(user), lambda _id, _: None), chance.randbytes, b"secret"
    )


def credential_of(hashing: ScramHash, password: str) -> ScramCredential:
    salted = hashing.salted_password(password, SALT, scram.MIN_ITERATIONS)
    return make_credential(hashing, salted, SALT, scram.MIN_ITERATIONS)


def finish(step: Step) -> bytes:
    return step if isinstance(step, bytes) else step()


def talk(client: ClientExchange, server: ServerExchange) -> None:
    token: Step | None = client.begin()
    while token is not None:
        token = client.respond(finish(server.respond(finish(token))))


@given(st.sampled_from(HASHINGS), NAMES, NAMES)
def test_client_logs_in_when_user_and_password_are_any_text(hashing: ScramHash, user: str, password: str) -> None:
    server = make_server(hashing, {user: password}).begin(0)
    client = ScramCredentials(hashing, user, password).begin("host")
    talk(client, server)
    assert client.is_complete
    assert server.login is not None
    assert server.login.name == user


@given(st.sampled_from(HASHINGS), ASCII, ASCII)
def test_client_of_another_implementation_logs_in(hashing: ScramHash, user: str, password: str) -> None:
    server = make_server(hashing, {user: password}).begin(0)
    client = ScramClient([hashing.mechanism], user, password)
    client.set_server_first(finish(server.respond(client.get_client_first().encode())).decode())
    client.set_server_final(finish(server.respond(client.get_client_final().encode())).decode())
    assert server.login is not None
    assert server.login.name == user


@given(st.sampled_from(HASHINGS), ASCII, ASCII)
def test_client_logs_in_at_another_implementation(hashing: ScramHash, user: str, password: str) -> None:
    mechanism = ScramMechanism(hashing.mechanism)
    stored = mechanism.make_auth_info(password, iteration_count=scram.MIN_ITERATIONS)
    server = mechanism.make_server(lambda _: stored)
    client = ScramCredentials(hashing, user, password).begin("host")
    server.set_client_first(finish(client.begin()).decode())
    final = client.respond(server.get_server_first().encode())
    assert final is not None
    server.set_client_final(finish(final).decode())
    assert client.respond(server.get_server_final().encode()) is None
    assert client.is_complete


@given(ASCII, ASCII)
def test_client_is_refused_when_the_password_is_another(password: str, wrong: str) -> None:
    assume(password != wrong)
    server = make_server(SHA_256, {"alice": password}).begin(0)
    with pytest.raises(LoginError, match="wrong user or password"):
        talk(ScramCredentials(SHA_256, "alice", wrong).begin("host"), server)
    assert server.login is None


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_server_refuses_or_answers_when_tokens_are_any_bytes(first: bytes, second: bytes) -> None:
    server = make_server(SHA_256, {"alice": "secret"}).begin(0)
    for token in (first, second):
        try:
            finish(server.respond(token))
        except LoginError:
            return
    assert server.login is None


@given(st.data())
def test_server_refuses_when_one_byte_of_the_proof_is_another(data: st.DataObject) -> None:
    server = make_server(SHA_256, {"alice": "secret"}).begin(0)
    client = ScramCredentials(SHA_256, "alice", "secret").begin("host")
    answer = client.respond(finish(server.respond(finish(client.begin()))))
    assert answer is not None
    final = bytearray(finish(answer))
    position = data.draw(st.integers(0, len(final) - 1))
    changed = data.draw(st.integers(0, 255))
    assume(changed != final[position])
    proof = _proof_of(bytes(final))
    final[position] = changed
    assume(_proof_of(bytes(final)) != proof)
    with pytest.raises(LoginError):
        server.respond(bytes(final))
    assert server.login is None


def _proof_of(message: bytes) -> tuple[bytes, bytes | None]:
    """The last letter of base64 in front of the padding has two bits that say nothing."""
    rest, _, text = message.partition(b",p=")
    try:
        return rest, base64.b64decode(text, validate=True)
    except ValueError:
        return rest, None


def test_unknown_user_sees_what_a_known_one_sees_when_logging_in() -> None:
    """Same messages, and the same salt each time: nothing tells which names exist."""
    maker = make_server(SHA_256, {"alice": "secret"})
    answers = []
    for user in ("bob", "bob", "carol"):
        server = maker.begin(0)
        client = ScramClientExchange(SHA_256, user, lambda salt, count: SALT, "nonce")
        answers.append(scram.parse_server_first(finish(server.respond(finish(client.begin())))))
        final = client.respond(str(answers[-1]).encode())
        assert final is not None
        with pytest.raises(LoginError, match="wrong user or password"):
            server.respond(finish(final))
    assert answers[0].salt == answers[1].salt != answers[2].salt
    assert {each.iterations for each in answers} == {scram.MIN_ITERATIONS}
    assert {len(each.salt) for each in answers} == {26}


@pytest.mark.parametrize("iterations", [1, 4095, 100_001, 2**31, 2**63])
def test_client_refuses_when_the_broker_asks_for_too_few_or_too_many_iterations(iterations: int) -> None:
    def never(salt: bytes, count: int) -> bytes:
        raise AssertionError("computed")

    client = ScramClientExchange(SHA_256, "alice", never, "nonce")
    client.begin()
    with pytest.raises(LoginError, match="iterations"):
        client.respond(f"r=nonce2,s=c2FsdA==,i={iterations}".encode())


def test_client_refuses_when_the_broker_does_not_know_the_password() -> None:
    client = ScramClientExchange(SHA_256, "alice", lambda salt, count: b"key", "nonce")
    client.begin()
    step = client.respond(b"r=nonce2,s=c2FsdA==,i=4096")
    assert step is not None
    finish(step)
    with pytest.raises(LoginError, match="did not prove"):
        client.respond(b"v=c2FsdA==")
    with pytest.raises(ScramException):  # the judge agrees about such an end
        ScramClient(["SCRAM-SHA-256"], "alice", "x").set_server_first("v=c2FsdA==")


@pytest.mark.parametrize(
    "first",
    [
        b"n,a=bob,n=alice,r=nonce",  # in another's name
        b"y,,n=alice,r=nonce",
        b"p=tls-unique,,n=alice,r=nonce",
        b"n,,m=ext,n=alice,r=nonce",
        b"n,,n=al=ice,r=nonce",
        b"n,,r=nonce,n=alice",
        b"n,,n=,r=nonce",
    ],
)
def test_server_refuses_when_the_first_message_is_not_one_it_serves(first: bytes) -> None:
    with pytest.raises(LoginError):
        make_server(SHA_256, {"alice": "secret"}).begin(0).respond(first)


def test_server_refuses_when_the_nonce_only_ends_as_it_should() -> None:
    """CVE-2024-56128."""
    server = make_server(SHA_256, {"alice": "secret"}).begin(0)
    first = scram.parse_server_first(finish(server.respond(b"n,,n=alice,r=mine")))
    bare, without_proof = "n=alice,r=mine", f"c=biws,r=other{first.nonce}"
    salted = SHA_256.salted_password("secret", first.salt, first.iterations)
    signed = scram.auth_message(bare, str(first), without_proof)
    client_key = SHA_256.client_key(salted)
    signature = SHA_256.hmac(SHA_256.hash(client_key), signed)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    with pytest.raises(LoginError, match="nonce"):
        server.respond(scram.encode_client_final(without_proof, proof))


def test_credential_comes_back_when_it_was_stored() -> None:
    credential = credential_of(SHA_256, "secret")
    text = scram.encode_credential(credential)
    assert scram.decode_credential(text) == credential
    assert "stored_key" in text
    assert repr(credential) == "ScramCredential(iterations=4096)"
    with pytest.raises(ValueError, match="cannot be read") as caught:
        scram.decode_credential("salt=geheim,stored_key=??")
    assert "geheim" not in str(caught.value)
