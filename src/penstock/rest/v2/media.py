"""Media types of version 2: `application/vnd.kafka[.FORMAT].v2+json`.

A body without a type, or with a general type, has the format binary, as in Confluent's proxy. An answer has a type that
the caller accepts: 406 where there is none, 415 for a body of an unknown type.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from penstock.http.accept_header import accepted_ranges
from penstock.http.operations import JSON
from penstock.rest.errors import FORMAT_MISMATCH, RestError
from penstock.rest.formats.formats import Format

KAFKA_V2: Final = "application/vnd.kafka.v2+json"
EMBEDDED: Final = (Format.BINARY, Format.JSON, Format.AVRO, Format.JSONSCHEMA, Format.PROTOBUF)
_GENERAL: Final = (KAFKA_V2, "application/vnd.kafka+json", JSON)
_ANY: Final = ("*/*", "application/*")
_FORMATS: Final = {f"application/vnd.kafka.{each}.v2+json": each for each in EMBEDDED}


def type_of(form: Format) -> str:
    return f"application/vnd.kafka.{form}.v2+json"


def _without_parameters(text: str) -> str:
    return text.partition(";")[0].strip().lower()


def format_of_body(request: Request) -> Format:
    """The format of the keys and values in the body. Raises RestError 415."""
    given = request.headers.get("content-type")
    if given is None:
        return Format.BINARY
    form = _FORMATS.get(given) or _FORMATS.get(_without_parameters(given))
    if form is not None:
        return form
    if _without_parameters(given) in _GENERAL:
        return Format.BINARY
    raise RestError(415, "Unsupported Media Type")


def check_body(request: Request) -> None:
    """Checks a body without records. Raises RestError 415."""
    given = request.headers.get("content-type")
    if given is not None and given != KAFKA_V2 and _without_parameters(given) not in (*_GENERAL, *_FORMATS):
        raise RestError(415, "Unsupported Media Type")


def _accepted(request: Request) -> list[str]:
    """Types with q=0 are not accepted."""
    return [each for each, quality in accepted_ranges(request.headers.getlist("accept")) if quality > 0]


def answer_type(request: Request) -> str:
    """The type of an answer without records. Raises RestError 406."""
    if request.headers.get("accept") == KAFKA_V2:
        return KAFKA_V2
    accepted = _accepted(request)
    for media_type in accepted:
        if media_type in _GENERAL:
            return media_type
    if any(each in _ANY or each in _FORMATS for each in accepted):
        return KAFKA_V2
    raise RestError(406, "Not Acceptable")


def check_records_accepted(request: Request, form: Format) -> None:
    """An instance answers in its own format. Raises RestError: 40601 for another format, 406 for no format at all."""
    accepted = _accepted(request)
    if type_of(form) in accepted or any(each in _ANY or each in _GENERAL for each in accepted):
        return
    if any(each in _FORMATS for each in accepted):
        raise RestError(FORMAT_MISMATCH, f"the instance reads the format {form}, and the request accepts another one")
    raise RestError(406, "Not Acceptable")
