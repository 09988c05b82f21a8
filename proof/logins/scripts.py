"""What clients say until they have logged in, right and bent: a script yields what is sent, and is sent the answers."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Generator
from typing import NamedTuple

from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ApiError
from penstock.protocol.framing import decode_response_header, encode_request_header
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest
from penstock.security.sasl.exchange import OAUTHBEARER, PLAIN, ClientExchange, LoginError, Step
from penstock.security.sasl.oauthbearer import OAuthBearerCredentials
from penstock.security.sasl.plain import PlainCredentials
from penstock.security.sasl.scram import SCRAM_HASHES
from penstock.security.sasl.scram_client import ScramClientExchange, ScramCredentials
from proof.fuzz.mutations import Fuzzer
from proof.logins.broker import PASSWORD, USER, Issuer

_FIRST_FRAMES = (b"\x60\x82\x02\x0e", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"\0", b"")
# A header that no reader by recursion gets to the end of.
_DEEP_TOKEN = base64.urlsafe_b64encode(b"[" * 20_000).rstrip(b"=").decode() + ".e30.AAAA"
_TOKEN_SHARE = 0.25
_FRAME_SHARE = 0.25
_SIZE_SHARE = 0.02
_SIZES = (-1, 0, 1, 2**31 - 1, -(2**31), 100 * 1024 * 1024, 524_289)

# Yields a frame without its size; is sent the answer without its size, or None where there is none.
Script = Generator[bytes, bytes | None, None]


class Login(NamedTuple):
    """One way to log in, and whether a broker may let it in."""

    mechanism: str
    begin: Callable[[random.Random], ClientExchange]
    is_right: bool


def logins(issuer: Issuer) -> list[Login]:
    right_token, strange_token = issuer.token(), issuer.token(Issuer.new_key())
    found = [
        Login(PLAIN, lambda _: PlainCredentials(USER, PASSWORD).begin(""), True),
        Login(PLAIN, lambda _: PlainCredentials(USER, "wrong").begin(""), False),
        Login(PLAIN, lambda _: PlainCredentials("*", PASSWORD).begin(""), False),
        Login(OAUTHBEARER, lambda _: OAuthBearerCredentials(lambda: right_token).begin(""), True),
        Login(OAUTHBEARER, lambda _: OAuthBearerCredentials(lambda: strange_token).begin(""), False),
        Login(OAUTHBEARER, lambda _: OAuthBearerCredentials(lambda: _DEEP_TOKEN).begin(""), False),
        Login("SCRAM-MD5", lambda _: PlainCredentials(USER, PASSWORD).begin(""), False),
    ]
    for name in SCRAM_HASHES:
        found += [
            _scram(name, USER, PASSWORD, is_right=True),
            _scram(name, USER, "wrong"),
            _scram(name, "nobody", PASSWORD),
            _scram(name, "t0ken", PASSWORD, extension=",tokenauth=true"),
        ]
    return found


def _scram(mechanism: str, user: str, password: str, *, extension: str = "", is_right: bool = False) -> Login:
    hashing = SCRAM_HASHES[mechanism]
    credentials = ScramCredentials(hashing, user, password)  # keeps the salted password, which takes long

    def begin(dice: random.Random) -> ClientExchange:
        nonce = dice.randbytes(18).hex()
        return ScramClientExchange(hashing, user, credentials.salted_password, nonce, extension)

    return Login(mechanism, begin, is_right)


class Bending:
    """Bends a share of what a client sends: tokens inside their frames, whole frames, and the sizes of frames."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self._fuzzer = Fuzzer(seed, [], [USER, PLAIN])

    def token(self, token: bytes) -> bytes:
        if self.dice.random() >= _TOKEN_SHARE:
            return token
        if self.dice.random() < 0.05:  # far too long
            return token + self.dice.choice((b"\0", b"a", b"=", b",a=b")) * 50_000
        return self._fuzzer.mutate(token)

    def frame(self, frame: bytes) -> bytes:
        return self._fuzzer.mutate(frame) if self.dice.random() < _FRAME_SHARE else frame

    def size(self, frame: bytes) -> int:
        return self.dice.choice(_SIZES) if self.dice.random() < _SIZE_SHARE else len(frame)


def play(login: Login, bending: Bending) -> Script:
    """One connection: what a client says to log in, and a request behind it."""
    dice = bending.dice
    if dice.random() < 0.05:
        yield dice.choice(_FIRST_FRAMES)
    if dice.random() < 0.4:
        version = dice.randrange(ApiVersionsRequest.MAX_VERSION + 1)
        yield _encode(ApiVersionsRequest(client_software_name="fuzz", client_software_version="1"), version)
    is_bare = dice.random() < 0.4
    if dice.random() < 0.95:
        yield _encode(SaslHandshakeRequest(mechanism=login.mechanism), 0 if is_bare else 1)
    version = dice.randrange(SaslAuthenticateRequest.MAX_VERSION + 1)
    exchange = login.begin(dice)
    step: Step | None = exchange.begin()
    while step is not None:
        token = bending.token(step if isinstance(step, bytes) else step())
        answer = yield token if is_bare else _encode(SaslAuthenticateRequest(auth_bytes=token), version)
        try:
            step = exchange.respond((answer or b"") if is_bare else _token_of(answer or b"", version))
        except LoginError:
            break  # a real client gives up
    yield _encode(MetadataRequest(topics=[]), 12)


def _encode(message: Message, version: int) -> bytes:
    kind = type(message)
    header = encode_request_header(kind.API_KEY, version, 1, "fuzz", version >= kind.FLEXIBLE_FROM)
    return header + encode(message, version)


def _token_of(answer: bytes, version: int) -> bytes:
    try:
        _, position = decode_response_header(answer, version >= SaslAuthenticateResponse.FLEXIBLE_FROM)
        return bytes(decode(SaslAuthenticateResponse, answer, version, position).auth_bytes)
    except (ApiError, ValueError, IndexError) as error:
        raise LoginError("no answer to a token") from error
