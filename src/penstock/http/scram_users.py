"""Checks passwords of users that a cluster keeps (SCRAM) against their stored credentials.

Rules:
- No password is kept, nor data from which a password could be guessed without the secret of this process.
- The check of a password takes 5 to 22 ms of a core, in a thread, one at a time: an attacker takes no more than one
  core from the broker, and delays only callers that have not logged in before.
- A right password is recognised by a keyed digest over it and over the stored credential: a changed password or a
  deleted user takes effect at once.
- A user that does not exist takes as long as a user with SCRAM-SHA-512 and Kafka's usual number of iterations. A user
  with SCRAM-SHA-256 alone takes less. Costs chosen by the name would hide that, and reveal half of the unknown names
  where all users have SCRAM-SHA-512, as those of `penstock users add` have.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Callable

from penstock.security.sasl.scram import MIN_ITERATIONS, SHA_256, SHA_512, ScramCredential, ScramHash

FindCredential = Callable[[str, ScramHash], ScramCredential | None]

# The number of digests of right passwords: one for each user, mostly. The least recently used is dropped first.
_MOST_KNOWN = 1_000


class ScramPasswords:
    def __init__(self, find: FindCredential, secret: bytes, most_known: int = _MOST_KNOWN) -> None:
        """`secret` is of this process alone."""
        self._find = find
        self._secret = secret
        self._most_known = most_known
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._one_at_a_time = asyncio.Lock()
        self._nobody = ScramCredential(secret, bytes(SHA_512.size), b"", MIN_ITERATIONS)

    async def check(self, name: str, password: str) -> str | None:
        """Returns the principal. A user with two credentials is checked against that of SCRAM-SHA-512."""
        hashing, credential = SHA_512, self._find(name, SHA_512)
        if credential is None and (credential := self._find(name, SHA_256)) is not None:
            hashing = SHA_256
        proof = self._digest(name.encode(), password.encode(), b"" if credential is None else credential.stored_key)
        if proof in self._known:
            self._known.move_to_end(proof)
            return f"User:{name}"
        async with self._one_at_a_time:
            is_right = await asyncio.to_thread(_matches, hashing, credential or self._nobody, password)
        if not is_right or credential is None:
            return None
        self._known[proof] = None
        if len(self._known) > self._most_known:
            self._known.popitem(last=False)
        return f"User:{name}"

    def __len__(self) -> int:
        """The number of passwords that are recognised without work."""
        return len(self._known)

    def _digest(self, *parts: bytes) -> bytes:
        digest = hmac.new(self._secret, digestmod="sha256")
        for part in parts:
            digest.update(len(part).to_bytes(4, "big"))
            digest.update(part)
        return digest.digest()


def _matches(hashing: ScramHash, credential: ScramCredential, password: str) -> bool:
    salted = hashing.salted_password(password, credential.salt, credential.iterations)
    return hmac.compare_digest(hashing.hash(hashing.client_key(salted)), credential.stored_key)
