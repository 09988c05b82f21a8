"""Users of a cluster at an HTTP listener: passwords are checked against SCRAM credentials, and rights are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.http.authentication import AnyOf, BasicAuthenticator, Entitled, Passwords
from penstock.http.scram_users import ScramPasswords
from penstock.http.server import HttpSecurity
from penstock.security.audit.events import AuditKind
from penstock.security.sasl.scram import (
    MIN_ITERATIONS,
    SHA_256,
    SHA_512,
    ScramCredential,
    ScramHash,
    make_credential,
)
from tests.unit.http.talking import Listening, with_listener
from tests.unit.http.test_logins import QUICK, Notes, basic

SECRET = b"of this process"


class Store:
    """Credentials of users, and how often somebody looked for them."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], ScramCredential] = {}

    def add(self, name: str, password: str, hashing: ScramHash = SHA_512) -> None:
        salted = hashing.salted_password(password, b"salt", MIN_ITERATIONS)
        self.kept[name, hashing.mechanism] = make_credential(hashing, salted, b"salt", MIN_ITERATIONS)

    def find(self, name: str, hashing: ScramHash) -> ScramCredential | None:
        return self.kept.get((name, hashing.mechanism))


def checking(scene: Callable[[ScramPasswords, Store], Awaitable[None]]) -> None:
    async def run() -> None:
        store = Store()
        await scene(ScramPasswords(store.find, SECRET), store)

    asyncio.run(run())


@pytest.mark.parametrize("hashing", [SHA_256, SHA_512], ids=lambda each: each.mechanism)
def test_user_is_known_when_the_password_is_that_of_the_credential(hashing: ScramHash) -> None:
    async def scene(passwords: ScramPasswords, store: Store) -> None:
        store.add("alice", "wonder:länd", hashing)
        for _ in range(2):  # the second time by what is remembered
            assert await passwords.check("alice", "wonder:länd") == "User:alice"
            for name, wrong in (("alice", "x"), ("alice", ""), ("bob", "wonder:länd"), ("", "")):
                assert await passwords.check(name, wrong) is None

    checking(scene)


def test_password_is_not_known_any_more_when_the_user_has_another_or_is_gone() -> None:
    async def scene(passwords: ScramPasswords, store: Store) -> None:
        store.add("alice", "first")
        assert await passwords.check("alice", "first") == "User:alice"
        store.add("alice", "second")
        assert await passwords.check("alice", "first") is None
        assert await passwords.check("alice", "second") == "User:alice"
        store.kept.clear()
        assert await passwords.check("alice", "second") is None

    checking(scene)


def test_name_and_password_are_not_mixed_up_when_their_ends_differ() -> None:
    async def scene(passwords: ScramPasswords, store: Store) -> None:
        store.add("alice", "bob")
        store.kept["aliceb", SHA_512.mechanism] = store.kept["alice", SHA_512.mechanism]
        assert await passwords.check("alice", "bob") == "User:alice"
        assert await passwords.check("aliceb", "ob") is None

    checking(scene)


def test_right_passwords_are_remembered_up_to_a_bound_and_wrong_ones_not_at_all() -> None:
    async def scene(_: ScramPasswords, store: Store) -> None:
        passwords = ScramPasswords(store.find, SECRET, most_known=2)
        for name in "abc":
            store.add(name, "right")
            assert await passwords.check(name, "wrong") is None
        assert len(passwords) == 0
        for name in "abc":
            assert await passwords.check(name, "right") == f"User:{name}"
        assert len(passwords) == 2

    checking(scene)


def test_user_is_served_refused_or_told_that_a_right_is_missing_over_http() -> None:
    store = Store()
    for name in ("alice", "bob"):
        store.add(name, f"{name}'s")
    notes = Notes()

    async def run(listening: Listening) -> list[int]:
        asked = [("/", basic("alice:alice's")), ("/", basic("bob:bob's")), ("/", basic("bob:x")), ("/", basic("op:ok"))]
        statuses = [(await listening.get(path, header)).status for path, header in asked]
        assert (await listening.get("/health", basic("bob:bob's"))).body.count(b'"principal":null') == 1
        return statuses

    def secured() -> HttpSecurity:
        passwords = ScramPasswords(store.find, SECRET)
        entitled = Entitled(
            BasicAuthenticator(passwords.check), lambda who, where: (who, where) == ("User:alice", "127.0.0.1")
        )
        return HttpSecurity(authenticator=AnyOf((BasicAuthenticator(Passwords({"op": "ok"}).check), entitled)))

    assert with_listener(run, QUICK, secured(), notes) == [200, 403, 401, 200]
    (denial,) = [each for each in notes.events if each.kind is AuditKind.DENIAL]
    assert (denial.principal, denial.is_allowed, denial.address) == ("User:bob", False, "127.0.0.1")
    assert "bob's" not in repr(notes.events)
