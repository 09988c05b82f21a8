"""SCRAM (RFC 5802): the computations of both sides, and the texts between them.

A stored credential is Kafka's: `salt=..,stored_key=..,server_key=..,iterations=..` with base64 values, under the
mechanism's name in the settings of a user. Neither the password nor what the client sends can be computed from it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from typing import NamedTuple

from penstock.security.sasl.exchange import SCRAM_SHA_256, SCRAM_SHA_512, LoginError

# Kafka's bounds of stored iterations.
MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16_384
# The bound for our client, 0.1 s of work: a number that a broker names must not keep a client busy for an hour
# (CVE-2026-10143). No Kafka stores more than 16,384, other brokers may.
MAX_CLIENT_ITERATIONS = 100_000
# No known tool makes longer ones: Kafka's make salts of 26 bytes and nonces of 24 characters.
_MAX_FIELD = 1024
# A message is a name, a nonce and a proof, some 200 bytes. The broker keeps the first one until the client's proof, for
# unknown clients too: 10,000 of them hold 20 MB at most.
_MAX_MESSAGE = 2048


class ScramHash(NamedTuple):
    mechanism: str
    name: str
    size: int
    code: int  # of the APIs that administer users

    def hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self.name)

    def hash(self, data: bytes) -> bytes:
        return hashlib.new(self.name, data).digest()

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Takes 1.4 us for each iteration, and lets other threads run."""
        return hashlib.pbkdf2_hmac(self.name, password.encode(), salt, iterations)

    def client_key(self, salted_password: bytes) -> bytes:
        return self.hmac(salted_password, b"Client Key")

    def server_key(self, salted_password: bytes) -> bytes:
        return self.hmac(salted_password, b"Server Key")


SHA_256 = ScramHash(SCRAM_SHA_256, "sha256", 32, 1)
SHA_512 = ScramHash(SCRAM_SHA_512, "sha512", 64, 2)
SCRAM_HASHES: Mapping[str, ScramHash] = {each.mechanism: each for each in (SHA_256, SHA_512)}
SCRAM_HASHES_BY_CODE: Mapping[int, ScramHash] = {each.code: each for each in (SHA_256, SHA_512)}


class ScramCredential(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


def make_credential(hashing: ScramHash, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    stored_key = hashing.hash(hashing.client_key(salted_password))
    return ScramCredential(salt, stored_key, hashing.server_key(salted_password), iterations)


def encode_credential(credential: ScramCredential) -> str:
    salt, stored_key, server_key = (_encode(each) for each in credential[:3])
    return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={credential.iterations}"


def decode_credential(text: str) -> ScramCredential:
    """Raises ValueError, which does not show the text."""
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        salt, stored_key, server_key = (
            base64.b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
        return ScramCredential(salt, stored_key, server_key, int(fields["iterations"]))
    except (KeyError, ValueError):
        raise ValueError("a stored SCRAM credential cannot be read") from None


# ------------------------------------------------------------------------------------------------- texts


class ClientFirst(NamedTuple):
    gs2_header: str
    authorization_id: str
    user: str
    nonce: str
    extensions: Mapping[str, str]
    bare: str  # the part that is signed


def parse_client_first(token: bytes) -> ClientFirst:
    """`n,[a=id],n=user,r=nonce[,name=value...]`. The broker offers no channel binding, so `n` is the only flag that
    Kafka takes; `y` and `p` are refused.
    """
    text = _text(token)
    flag, _, rest = text.partition(",")
    authorization, _, bare = rest.partition(",")
    if flag != "n" or (authorization and not authorization.startswith("a=")):
        raise LoginError("the GS2 header is not the one of SCRAM without channel binding")
    fields = _fields(bare)
    if [name for name, _ in fields[:2]] != ["n", "r"]:
        raise LoginError("the first message names no user and nonce")
    user, nonce = fields[0][1], _nonce(fields[1][1])
    authorization_id = _decode_name(authorization.removeprefix("a="))
    header = f"n,{authorization},"
    return ClientFirst(header, authorization_id, _decode_name(user), nonce, dict(fields[2:]), bare)


class ServerFirst(NamedTuple):
    nonce: str
    salt: bytes
    iterations: int

    def __str__(self) -> str:
        return f"r={self.nonce},s={_encode(self.salt)},i={self.iterations}"


def parse_server_first(token: bytes) -> ServerFirst:
    fields = _fields(_text(token))
    if [name for name, _ in fields[:3]] != ["r", "s", "i"]:
        raise LoginError("the broker's first message is not one of SCRAM")
    iterations = fields[2][1]
    if not (iterations.isascii() and iterations.isdigit()) or len(iterations) > 10:
        raise LoginError("the broker's number of iterations is none")
    return ServerFirst(_nonce(fields[0][1]), _decode(fields[1][1]), int(iterations))


class ClientFinal(NamedTuple):
    channel_binding: bytes
    nonce: str
    proof: bytes
    without_proof: str  # the part that is signed


def parse_client_final(token: bytes) -> ClientFinal:
    text = _text(token)
    without_proof, separator, proof = text.rpartition(",p=")
    fields = _fields(without_proof)
    if not separator or [name for name, _ in fields[:2]] != ["c", "r"]:
        raise LoginError("the final message is not one of SCRAM")
    return ClientFinal(_decode(fields[0][1]), fields[1][1], _decode(proof), without_proof)


def encode_client_final(without_proof: str, proof: bytes) -> bytes:
    return f"{without_proof},p={_encode(proof)}".encode()


def encode_server_final(signature: bytes) -> bytes:
    return f"v={_encode(signature)}".encode()


def parse_server_final(token: bytes) -> bytes:
    text = _text(token)
    if not text.startswith("v="):
        raise LoginError("the broker did not prove that it knows the password")
    return _decode(text[2:])


def auth_message(client_first_bare: str, server_first: str, client_final_without_proof: str) -> bytes:
    return ",".join((client_first_bare, server_first, client_final_without_proof)).encode()


def channel_binding(gs2_header: str) -> str:
    return "c=" + _encode(gs2_header.encode())


def encode_name(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _decode_name(text: str) -> str:
    name = text.replace("=2C", ",").replace("=3D", "=")
    if encode_name(name) != text:
        raise LoginError("a name has an equals sign that stands for nothing")
    return name


def _text(token: bytes) -> str:
    if len(token) > _MAX_MESSAGE:
        raise LoginError("the message is too long")
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise LoginError("the message is not UTF-8") from None


def _fields(text: str) -> list[tuple[str, str]]:
    """`name=value` parts in their order. A mandatory extension (`m=`) is refused, as RFC 5802 asks."""
    fields = []
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or not name or not value or name == "m":
            raise LoginError("a field of the message is not name=value")
        fields.append((name, value))
    return fields


def _nonce(text: str) -> str:
    if not text.isascii() or not text.isprintable() or len(text) > _MAX_FIELD:
        raise LoginError("the nonce is not printable")
    return text


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(text: str) -> bytes:
    if len(text) > _MAX_FIELD:
        raise LoginError("a field of the message is too long")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise LoginError("a field of the message is not base64") from None
