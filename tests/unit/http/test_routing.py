"""Which row of the table a path means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.http.routes import ErrorForm, Route
from penstock.http.routing import Routing
from penstock.http.server import HttpServer
from tests.unit.http.talking import Listening, hello, run_listening

ROUTES = tuple(
    Route(path, hello, methods)
    for path, methods in (
        ("/", ("GET",)),
        ("/config", ("GET", "PUT")),
        ("/subjects", ("GET",)),
        ("/subjects/{name}", ("DELETE",)),
        ("/subjects/{name}/versions", ("GET",)),
        ("/subjects/{name}/versions/{version}", ("GET",)),
        ("/subjects/special/versions", ("POST",)),
        ("/files/{path:path}", ("GET",)),
    )
)


def match(method: str, path: str) -> tuple[str, dict[str, str]] | None:
    matched = Routing(ROUTES).match(method, path.encode())
    return None if matched is None or matched.route is None else (matched.route.path, matched.parameters)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/subjects/orders/versions", "orders"),
        ("/subjects/a%2Fb/versions", "a/b"),
        ("/subjects/a%2fb/versions/", "a/b"),
        ("/subjects/a%252Fb/versions", "a%2Fb"),
        ("/subjects/%252e%252e/versions", "%2e%2e"),
        ("/subjects/..%2F..%2Fconfig/versions", "../../config"),
        ("/subjects/%00/versions", "\x00"),
        ("/subjects/a;b=c/versions", "a;b=c"),
        ("/subjects/:.c:s%C3%A9/versions", ":.c:sé"),
        ("/subjects/%zz/versions", "%zz"),
        ("/%73ubjects/orders/versions", "orders"),
    ],
)
def test_name_is_decoded_once_when_it_stands_in_one_segment(path: str, name: str) -> None:
    assert match("GET", path) == ("/subjects/{name}/versions", {"name": name})


@pytest.mark.parametrize(
    "path",
    [
        "/subjects/../config",
        "/subjects/%2e%2e/config",
        "/subjects/%2E./versions",
        "/subjects/./versions",
        "/subjects//versions",
        "//subjects",
        "/subjects//",
        "/subjects/orders%2Fversions",
        "/subjects%2Forders/versions",
        "/subjects/orders/versions/1/..",
        "/subjects/%ff/versions",
        "/subjects/%c0%ae%c0%ae/versions",
        "/config;x=y",
        "/config%00",
        "/config%20",
        "\\config",
        "http://elsewhere/config",
        "*",
        "",
    ],
)
def test_no_page_is_found_when_a_path_is_written_to_mislead(path: str) -> None:
    assert match("GET", path) is None


def test_rest_of_the_path_is_the_value_when_the_row_asks_for_it() -> None:
    assert match("GET", "/files/a/b%2Fc") == ("/files/{path:path}", {"path": "a/b/c"})
    assert match("GET", "/files/a/../b") is None


def test_word_of_the_table_comes_first_and_values_are_tried_when_it_lacks_the_method() -> None:
    assert match("POST", "/subjects/special/versions") == ("/subjects/special/versions", {})
    assert match("GET", "/subjects/special/versions") == ("/subjects/{name}/versions", {"name": "special"})


def test_allowed_methods_are_told_when_the_method_is_none_of_them() -> None:
    matched = Routing(ROUTES).match("DELETE", b"/config")
    assert matched is not None
    assert (matched.route, matched.allowed) == (None, ("GET", "PUT", "HEAD"))


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_every_name_reaches_its_page_alone_when_all_of_it_is_encoded(name: str) -> None:
    encoded = "".join(f"%{byte:02x}" for byte in name.encode())
    wanted = None if name in (".", "..") else ("/subjects/{name}/versions", {"name": name})
    assert match("GET", f"/subjects/{encoded}/versions") == wanted


@given(st.text("/.%25eEfFa:", max_size=12))
def test_value_holds_all_that_stood_there_when_a_path_matches(path: str) -> None:
    matched = match("DELETE", "/subjects/" + path)
    if matched is not None:
        assert "/" not in path.removesuffix("/")
        assert matched[0] == "/subjects/{name}"
        assert matched[1]["name"] not in ("", ".", "..")


def test_row_is_refused_when_it_stands_in_the_table_twice() -> None:
    with pytest.raises(AssertionError, match="twice"):
        Routing([*ROUTES, Route("/subjects/{other}", hello, ("DELETE",))])


def test_errors_have_the_listeners_form_when_it_has_one() -> None:
    form = ErrorForm("text/x-own", lambda status, text: f"{status}:{text}".encode())

    async def use(listening: Listening) -> list[bytes]:
        found = []
        for line in ("GET /nothing", "DELETE /config"):
            answer = await listening.send(f"{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
            assert "content-type: text/x-own" in answer.headers
            found.append(answer.body)
        return found

    server = HttpServer("test", ROUTES, errors=form)
    assert run_listening(server, use) == [b"404:Not Found", b"405:Method Not Allowed"]
