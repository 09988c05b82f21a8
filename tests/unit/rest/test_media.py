"""Media types of version 2."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from penstock.rest.errors import RestError
from penstock.rest.formats.formats import Format
from penstock.rest.v2.media import answer_type, check_records_accepted, format_of_body


def request(**headers: str) -> Request:
    encoded = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": encoded})


@pytest.mark.parametrize(
    ("content_type", "form"),
    [
        ("application/vnd.kafka.json.v2+json", Format.JSON),
        ("Application/vnd.kafka.Avro.v2+json; charset=utf-8", Format.AVRO),
        ("application/vnd.kafka.v2+json", Format.BINARY),
        ("application/json", Format.BINARY),
    ],
)
def test_body_has_a_format_when_its_type_names_one(content_type: str, form: Format) -> None:
    assert format_of_body(request(content_type=content_type)) is form


def test_body_is_binary_when_it_has_no_type() -> None:
    assert format_of_body(request()) is Format.BINARY


@pytest.mark.parametrize("content_type", ["", "text/html", "application/vnd.kafka.string.v2+json", ";" * 1000])
def test_body_is_refused_when_nobody_reads_its_type(content_type: str) -> None:
    with pytest.raises(RestError) as refused:
        format_of_body(request(content_type=content_type))
    assert refused.value.status == 415


def test_own_format_is_answered_when_the_caller_accepts_anything() -> None:
    for accept in ("*/*", "application/json", "application/vnd.kafka.v2+json", "application/vnd.kafka.json.v2+json"):
        check_records_accepted(request(accept=accept), Format.JSON)
    check_records_accepted(request(), Format.JSON)


@pytest.mark.parametrize(("accept", "code"), [("application/vnd.kafka.avro.v2+json", 40601), ("text/html", 406)])
def test_records_are_refused_when_another_format_is_accepted(accept: str, code: int) -> None:
    with pytest.raises(RestError) as refused:
        check_records_accepted(request(accept=accept), Format.JSON)
    assert (refused.value.status, refused.value.code) == (406, code)


def test_type_is_the_one_that_is_named_first_when_several_are_accepted() -> None:
    assert answer_type(request(accept="application/json, application/vnd.kafka.v2+json")) == "application/json"
    assert answer_type(request(accept="*/*")) == "application/vnd.kafka.v2+json"
