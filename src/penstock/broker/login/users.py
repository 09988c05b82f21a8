"""The SCRAM credentials: users in the metadata, and delegation tokens."""

from __future__ import annotations

from collections.abc import Callable

from penstock.cluster.security_image import SecurityImage, user_key
from penstock.core.config.broker_config import BrokerConfig
from penstock.security.sasl.scram import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramHash,
    decode_credential,
    make_credential,
)
from penstock.security.sasl.scram_server import ScramUsers, TokenCredential, make_salt
from penstock.security.tokens.tokens import decode_token, token_hmac, token_password

# The number of kept credentials, one for each token and mechanism that a client has logged in with. A cluster has fewer
# tokens than this, mostly far fewer.
_MOST_KEPT = 10_000


class StoredUsers:
    def __init__(self, security: Callable[[], SecurityImage], config: BrokerConfig) -> None:
        """`security` gives the security of the current image."""
        self._security = security
        secret = config.get("delegation.token.secret.key")
        self._secret = None if secret is None else str(secret).encode()
        self._kept: dict[tuple[str, str], ScramCredential] = {}

    def as_scram_users(self) -> ScramUsers:
        return ScramUsers(self.find_user, self.find_token)

    def find_user(self, user: str, hashing: ScramHash) -> ScramCredential | None:
        """Finds a user. An unreadable credential counts as none: the user gets the refusal of a user that does not
        exist.
        """
        text = self._security().entity_configs.get(user_key(user), {}).get(hashing.mechanism)
        try:
            return None if text is None else decode_credential(text)
        except ValueError:
            return None

    def find_token(self, token_id: str, hashing: ScramHash) -> TokenCredential | None:
        settings = self._security().tokens.get(token_id)
        if settings is None or self._secret is None:
            return None
        token = decode_token(token_id, settings)
        secret = self._secret
        return TokenCredential(
            token.owner.partition(":")[2], token.expiry_ms, lambda: self._credential(token_id, hashing, secret)
        )

    def _credential(self, token_id: str, hashing: ScramHash, secret: bytes) -> ScramCredential:
        """Computes the credential at the first login with a token: 6 ms, in a thread."""
        key = (token_id, hashing.mechanism)
        credential = self._kept.get(key)
        if credential is None:
            hmac = token_hmac(secret, token_id)
            salt = make_salt(hashing.hmac(hmac, b"salt"))
            salted = hashing.salted_password(token_password(hmac), salt, MIN_ITERATIONS)
            credential = make_credential(hashing, salted, salt, MIN_ITERATIONS)
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[key] = credential
        return credential
