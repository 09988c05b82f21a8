"""Checks signed tokens (JWT), and reads their users.

Rules:
- The signature is made with a key of the issuer's key set, by an algorithm with a private and a public key. `none`, and
  algorithms with one shared secret, are refused: any client knows the public key (CVE-2021-22160).
- `exp`, `iat` and the subject are there. Times may differ by the allowed clock skew.
- Where an issuer or audiences are expected, the token names them. A token may be for several audiences.
- A token needs no scopes, as in Kafka's BrokerJwtValidator; scopes that are there are texts, none empty, none twice.
- No text of a refusal has a part of the token in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.security.sasl.exchange import Login, LoginError
from penstock.security.sasl.jwks import KeyNotFoundError, KeySource

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
# Tokens of large identity providers have some 3 KB. Longer ones are refused before anything is computed.
_MAX_LENGTH = 32 * 1024
_JAVA_BLANKS = "".join(map(chr, range(0x21)))


class JwtRules(NamedTuple):
    subject_claim: str = "sub"
    scope_claim: str = "scope"
    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    skew_ms: int = 30_000


class JwtJudge:
    def __init__(self, keys: KeySource, rules: JwtRules) -> None:
        self._keys = keys
        self._rules = rules

    def needs_keys(self, token: str, now_ms: int) -> bool:
        return self._keys.needs_reading(_key_id(token), now_ms)

    def read_keys(self, token: str, now_ms: int) -> None:
        self._keys.read(_key_id(token), now_ms)

    def judge(self, token: str, now_ms: int) -> Login:
        from joserfc import jwt
        from joserfc.errors import JoseError

        key = self._find_key(token, now_ms)
        try:
            claims = jwt.decode(token, key, algorithms=list(ALGORITHMS)).claims
        except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise LoginError(f"the token's signature is not believed ({type(error).__name__})") from None
        return check_claims(claims, self._rules, now_ms)

    def _find_key(self, token: str, now_ms: int) -> Any:
        try:
            return self._keys.find(_key_id(token), now_ms)
        except KeyNotFoundError as error:
            raise LoginError(str(error)) from None


def _key_id(token: str) -> str | None:
    """The key id in the header, which is not verified yet."""
    from joserfc.errors import JoseError
    from joserfc.jws import extract_compact

    if len(token) > _MAX_LENGTH:
        raise LoginError("the token is too long")
    try:
        header = extract_compact(token.encode()).protected
    except (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError):  # thousands of brackets
        raise LoginError("the token is no signed JWT") from None
    key_id = header.get("kid")
    if key_id is not None and not isinstance(key_id, str):
        raise LoginError("the token's key id is no text")
    return key_id


def check_claims(claims: Mapping[str, Any], rules: JwtRules, now_ms: int) -> Login:
    """The token's user, and the end of the token. Raises LoginError."""
    expires_ms = _time_ms(claims, "exp")
    issued_ms = _time_ms(claims, "iat")
    if now_ms >= expires_ms + rules.skew_ms:
        raise LoginError("the token has expired")
    if issued_ms > now_ms + rules.skew_ms:
        raise LoginError("the token was issued in the future")
    if "nbf" in claims and _time_ms(claims, "nbf") > now_ms + rules.skew_ms:
        raise LoginError("the token is not valid yet")
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not _trim(subject):
        raise LoginError(f"the token has no claim {rules.subject_claim}")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise LoginError("the token is another issuer's")
    if rules.audiences and not set(_texts(claims.get("aud"), "aud")) & set(rules.audiences):
        raise LoginError("the token is for another audience")
    _check_scopes(claims.get(rules.scope_claim), rules.scope_claim)
    return Login(_trim(subject), expires_ms)


def _check_scopes(value: object, name: str) -> None:
    """A text is one scope, spaces included. Any other value that is no list is no scope, as in Kafka."""
    scopes = [_trim(scope) for scope in _texts(value, name)] if isinstance(value, str | list) else []
    if not all(scopes) or len(set(scopes)) != len(scopes):
        raise LoginError(f"the token's claim {name} has an empty text, or one twice")


def _trim(text: str) -> str:
    """Strips blanks and control characters at both ends, as Java does."""
    return text.strip(_JAVA_BLANKS)


def _time_ms(claims: Mapping[str, Any], name: str) -> int:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise LoginError(f"the token has no claim {name}")
    return int(value * 1000)


def _texts(value: object, name: str) -> list[str]:
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    texts = [each for each in values if isinstance(each, str)]
    if len(texts) != len(values):
        raise LoginError(f"the token's claim {name} is no text")
    return texts
