"""Logins, rights on subjects and the audit trail, over the API."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from starlette.requests import Request
from starlette.responses import Response

from penstock.http.authentication import BasicAuthenticator, Passwords
from penstock.http.server import HttpSecurity
from penstock.registry.api.access import Access
from penstock.registry.api.forwarding import ALONE, Forwarder
from penstock.registry.api.rights import parse_rights
from penstock.security.audit.events import AuditEvent, AuditKind
from tests.integration.registry.serving import PATIENCE_S, Answer, Served, serving

RULES = [
    {
        "principal": "User:alice",
        "permission": "allow",
        "operations": ["ALL"],
        "subject": "orders-",
        "pattern": "prefixed",
    },
    {"principal": "User:alice", "permission": "deny", "operations": ["DELETE"], "subject": "orders-kept"},
    {"principal": "User:alice", "permission": "allow", "operations": ["READ"], "subject": "shared"},
    {"principal": "User:bob", "permission": "allow", "operations": ["READ", "READ_CONFIG"], "subject": "*"},
    {"principal": "User:bob", "permission": "deny", "operations": ["READ"], "subject": "secret"},
    {"principal": "User:ops", "permission": "allow", "operations": ["ADMIN"]},
]
RIGHTS = json.dumps({"superUsers": ["User:root"], "rules": RULES}).encode()
NAMES = ("alice", "bob", "ops", "root")
STRING = {"schema": '"string"'}
LONG = {"schema": '"long"'}


class Trail:
    kinds = frozenset((AuditKind.DENIAL, AuditKind.CHANGE))
    refuses = False

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


@pytest.fixture(scope="module")
def trail() -> Trail:
    return Trail()


@pytest.fixture(scope="module")
def guarded(trail: Trail) -> Iterator[Served]:
    with guarding(trail) as served:
        yield served


@contextmanager
def guarding(trail: Trail, forwarder: Forwarder = ALONE) -> Iterator[Served]:
    passwords = Passwords({name: name for name in NAMES})
    security = HttpSecurity(authenticator=BasicAuthenticator(passwords.check))
    access = Access(parse_rights(RIGHTS), trail)
    with serving(security=security, access=access, auditor=trail, forwarder=forwarder) as served:
        for subject, schema in (
            ("shared", STRING),
            ("secret", LONG),
            ("orders-value", STRING),
            ("orders-kept", STRING),
        ):
            assert by(served, "root", "POST", f"/subjects/{subject}/versions", schema).status == 200
        yield served


def by(served: Served, name: str, method: str, path: str, body: object = None) -> Answer:
    return served.ask(method, path, body, auth=(name, name))


@pytest.mark.parametrize(
    ("name", "method", "path", "body", "status"),
    [
        ("alice", "POST", "/subjects/orders-new/versions", STRING, 200),
        ("alice", "POST", "/subjects/shared/versions", STRING, 403),
        ("alice", "GET", "/subjects/shared/versions/1", None, 200),
        ("alice", "GET", "/subjects/secret/versions/1", None, 403),
        ("alice", "GET", "/subjects/secret/versions/1/schema", None, 403),
        ("alice", "GET", "/subjects/:.:secret/versions/1", None, 403),
        ("alice", "POST", "/subjects/:.c:orders-value/versions", STRING, 403),
        ("alice", "POST", "/contexts/:.c:/subjects/orders-value/versions", STRING, 403),
        ("alice", "DELETE", "/subjects/orders-kept", None, 403),
        ("alice", "DELETE", "/subjects/orders-kept/versions/1", None, 403),
        ("alice", "PUT", "/config/orders-value", {"compatibility": "NONE"}, 200),
        ("alice", "PUT", "/config", {"compatibility": "NONE"}, 403),
        ("alice", "PUT", "/config/:.:", {"compatibility": "NONE"}, 403),
        ("alice", "PUT", "/config/:.__GLOBAL:", {"compatibility": "NONE"}, 403),
        ("alice", "DELETE", "/mode", None, 403),
        ("alice", "DELETE", "/contexts/.c", None, 403),
        ("alice", "GET", "/config", None, 200),
        ("bob", "GET", "/subjects/shared/versions", None, 200),
        ("bob", "GET", "/subjects/:.:secret/versions", None, 403),
        ("bob", "POST", "/subjects/secret", LONG, 403),
        ("bob", "POST", "/compatibility/subjects/secret/versions/latest", LONG, 403),
        ("bob", "GET", "/config/shared?defaultToGlobal=true", None, 200),
        ("bob", "PUT", "/mode/shared", {"mode": "READONLY"}, 403),
        ("bob", "GET", "/associations/subjects/secret", None, 403),
        ("ops", "PUT", "/config", {"compatibility": "BACKWARD"}, 200),
        ("ops", "PUT", "/mode/:.__GLOBAL:", {"mode": "READWRITE"}, 200),
        ("ops", "GET", "/subjects/shared/versions", None, 403),
        ("root", "GET", "/subjects/secret/versions/1", None, 200),
    ],
)
def test_operation_is_allowed_when_a_rule_says_so_alone(
    guarded: Served, name: str, method: str, path: str, body: object, status: int
) -> None:
    answer = by(guarded, name, method, path, body)
    assert answer.status == status, answer
    if status == 403:
        assert answer.code == 40301


def test_stranger_gets_401_in_the_registrys_words_when_nobody_is_logged_in(guarded: Served) -> None:
    for path in ("/subjects", "/nothing", "/openapi.json", "/"):
        assert guarded.get(path).body == {"error_code": 401, "message": "Unauthorized"}
    assert guarded.get("/healthz").body == {"status": "ok"}


def test_lists_hide_what_may_not_be_read_when_they_are_shown(guarded: Served) -> None:
    seen = by(guarded, "alice", "GET", "/subjects").body
    assert isinstance(seen, list)
    assert "shared" in seen
    assert "secret" not in seen
    assert by(guarded, "alice", "GET", "/subjects?limit=1&offset=1").body == seen[1:2]
    assert by(guarded, "ops", "GET", "/subjects").body == []
    listed = by(guarded, "bob", "GET", "/schemas").body
    assert isinstance(listed, list)
    assert "secret" not in {each["subject"] for each in listed}
    assert by(guarded, "ops", "GET", "/schemas").body == []
    assert by(guarded, "ops", "GET", "/contexts").body == ["."]


def test_id_is_readable_when_one_of_its_subjects_is(guarded: Served) -> None:
    hidden = by(guarded, "root", "GET", "/subjects/secret/versions/1").body
    shared = by(guarded, "root", "GET", "/subjects/shared/versions/1").body
    assert isinstance(hidden, dict)
    assert isinstance(shared, dict)
    for path in ("", "/schema", "/subjects", "/versions"):
        assert by(guarded, "bob", "GET", f"/schemas/ids/{hidden['id']}{path}").code == 40301
        assert by(guarded, "bob", "GET", f"/schemas/ids/{shared['id']}{path}").status == 200
    for path in ("", "/ids"):
        assert by(guarded, "bob", "GET", f"/schemas/guids/{hidden['guid']}{path}").code == 40301
        assert by(guarded, "bob", "GET", f"/schemas/guids/{shared['guid']}{path}").status == 200
    assert by(guarded, "alice", "GET", "/schemas/ids/99999").code == 40403


def test_other_subject_stays_hidden_when_an_alias_or_a_reference_leads_to_it(guarded: Served) -> None:
    assert by(guarded, "alice", "PUT", "/config/orders-x", {"alias": "secret"}).code == 40301
    by(guarded, "root", "PUT", "/config/orders-alias", {"alias": "secret"})
    assert by(guarded, "alice", "GET", "/subjects/orders-alias/versions/1").code == 40301
    referring = {**STRING, "references": [{"name": "x", "subject": "secret", "version": 1}]}
    assert by(guarded, "alice", "POST", "/subjects/orders-refers/versions", referring).code == 40301


def test_alias_is_refused_when_its_target_may_only_be_read(guarded: Served) -> None:
    assert by(guarded, "alice", "PUT", "/config/orders-reader", {"alias": "shared"}).code == 40301
    assert by(guarded, "alice", "PUT", "/config/orders-reader", {"alias": "orders-value"}).status == 200


class Door:
    """Holds registrations between their first check of rights and their turn."""

    def __init__(self) -> None:
        self.is_reached, self.is_open = threading.Event(), threading.Event()

    async def forward(self, request: Request) -> Response | None:
        if request.method == "POST" and "late" in request.url.path:
            self.is_reached.set()
            await asyncio.to_thread(self.is_open.wait, PATIENCE_S)
        return None

    def stamp(self, request: Request, response: Response) -> None:
        pass


def test_registration_is_refused_when_an_alias_was_set_while_it_waited_for_a_leader() -> None:
    door = Door()
    with guarding(Trail(), forwarder=door) as served, ThreadPoolExecutor(1) as callers:
        late = callers.submit(by, served, "alice", "POST", "/subjects/orders-late/versions", LONG)
        assert door.is_reached.wait(PATIENCE_S)
        assert by(served, "root", "PUT", "/config/orders-late", {"alias": "shared"}).status == 200
        door.is_open.set()
        assert late.result(PATIENCE_S).code == 40301
        assert by(served, "root", "GET", "/subjects/shared/versions").body == [1]


def test_registration_is_refused_when_an_alias_was_set_while_its_body_was_held_back(guarded: Served) -> None:
    body = json.dumps(LONG).encode()
    host, _, port = guarded.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as held:
        held.sendall(
            b"POST /subjects/orders-held/versions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\nconnection: close\r\n"
            b"authorization: Basic " + base64.b64encode(b"alice:alice") + b"\r\ncontent-length: %d\r\n\r\n" % len(body)
        )
        assert held.recv(1_000).startswith(b"HTTP/1.1 100")  # the body is asked for, so the rights were checked
        assert by(guarded, "root", "PUT", "/config/orders-held", {"alias": "shared"}).status == 200
        held.sendall(body)
        answer = b"".join(iter(lambda: held.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 403")
    assert by(guarded, "root", "GET", "/subjects/shared/versions").body == [1]


def test_tags_are_refused_when_the_version_is_found_where_the_caller_may_not_write(guarded: Served) -> None:
    by(guarded, "root", "POST", "/subjects/:.hidden:orders-tagged/versions", LONG)
    path = "/subjects/orders-tagged/versions/1/tags"
    assert by(guarded, "alice", "POST", path, {"tagsToAdd": []}).code == 40301


def test_tags_stay_with_the_version_they_were_asked_for_when_aliases_lead_on(guarded: Served) -> None:
    by(guarded, "root", "POST", "/subjects/orders-second/versions", STRING)
    by(guarded, "root", "PUT", "/config/orders-first", {"alias": "orders-second"})
    by(guarded, "root", "PUT", "/config/orders-second", {"alias": "secret"})
    tags = {"metadata": {"properties": {"a": "b"}}}
    assert by(guarded, "alice", "POST", "/subjects/orders-first/versions/1/tags", tags).status == 200
    assert by(guarded, "root", "GET", "/subjects/secret/versions").body == [1]


def test_other_context_stays_hidden_when_a_name_is_found_there_alone(guarded: Served) -> None:
    by(guarded, "root", "POST", "/subjects/:.hidden:orders-there/versions", LONG)
    for path in ("", "/1", "/latest", "/1/schema", "/1/referencedby"):
        assert by(guarded, "alice", "GET", f"/subjects/orders-there/versions{path}").code == 40301, path
        assert by(guarded, "root", "GET", f"/subjects/orders-there/versions{path}").status == 200, path
    assert by(guarded, "alice", "POST", "/subjects/orders-there", LONG).code == 40301
    checked = "/compatibility/subjects/orders-there/versions/latest?verbose=true"
    assert by(guarded, "alice", "POST", checked, STRING).code == 40301


def test_trail_has_denials_and_changes_when_they_happen(guarded: Served, trail: Trail) -> None:
    trail.events.clear()
    by(guarded, "alice", "POST", "/subjects/orders-audited/versions", STRING)
    by(guarded, "alice", "POST", "/subjects/orders-audited/versions", {"schema": "nonsense"})
    by(guarded, "bob", "POST", "/subjects/orders-audited/versions", STRING)
    by(guarded, "ops", "PUT", "/config", {"compatibility": "BACKWARD"})
    by(guarded, "alice", "GET", "/subjects/orders-audited/versions")
    seen = [(e.kind, e.what, e.is_allowed, e.principal, e.resource, e.operation) for e in trail.events]
    subject = "Subject:orders-audited"
    assert seen == [
        (AuditKind.CHANGE, "RegisterSchema", True, "User:alice", subject, "WRITE"),
        (AuditKind.DENIAL, "RegisterSchema", False, "User:bob", subject, "WRITE"),
        (AuditKind.CHANGE, "ChangeGlobalConfig", True, "User:ops", "Registry:registry", "ADMIN"),
    ]
    assert trail.events[0].details["version"] == 1


def test_nothing_is_changed_when_the_trail_is_full() -> None:
    trail = Trail()
    with serving(access=Access(None, trail), auditor=trail) as served:
        trail.refuses = True
        answer = served.post("/subjects/s/versions", STRING)
        assert (answer.status, answer.code) == (503, 503)
        assert served.get("/subjects").body == []
