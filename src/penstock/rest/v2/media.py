"""Media types of version 2: `application/vnd.kafka[.FORMAT].v2+json`.

A body without a type, or with a general one, has the format binary, as Confluent has it. An answer has a type that the
caller accepts: 406 where there is none, 415 for a body whose type nobody reads here.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from penstock.rest.answers import JSON
from penstock.rest.errors import FORMAT_MISMATCH, RestError
from penstock.rest.formats.formats import Format

KAFKA_V2: Final = "application/vnd.kafka.v2+json"
EMBEDDED: Final = (Format.BINARY, Format.JSON, Format.AVRO, Format.JSONSCHEMA, Format.PROTOBUF)
_GENERAL: Final = (KAFKA_V2, "application/vnd.kafka+json", JSON)
_ANY: Final = ("*/*", "application/*")
_FORMATS: Final = {f"application/vnd.kafka.{each}.v2+json": each for each in EMBEDDED}
# What a stranger may send as one header is bounded by the listener; this bounds the work for it.
_MOST_TYPES = 50


def type_of(form: Format) -> str:
    return f"application/vnd.kafka.{form}.v2+json"


def _without_parameters(text: str) -> str:
    return text.partition(";")[0].strip().lower()


def format_of_body(request: Request) -> Format:
    """Of the keys and values in the body. Raises RestError 415."""
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
    """Of a body without records. Raises RestError 415."""
    given = request.headers.get("content-type")
    if given is not None and given != KAFKA_V2 and _without_parameters(given) not in (*_GENERAL, *_FORMATS):
        raise RestError(415, "Unsupported Media Type")


def _accepted(request: Request) -> list[str]:
    """Those with q=0 are not."""
    header = request.headers.get("accept")
    if header is None or not header.strip():
        return ["*/*"]
    accepted = []
    for part in header.split(",")[:_MOST_TYPES]:
        media_type, _, parameters = part.partition(";")
        if not _is_refused(parameters):
            accepted.append(media_type.strip().lower())
    return accepted


def _is_refused(parameters: str) -> bool:
    for each in parameters.split(";"):
        name, _, value = each.partition("=")
        if name.strip().lower() == "q":
            return not value.strip().strip("0.")
    return False


def answer_type(request: Request) -> str:
    """Of an answer without records. Raises RestError 406."""
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
    """An instance answers in its own format. Raises RestError: 40601 for another one, 406 for no format at all."""
    accepted = _accepted(request)
    if type_of(form) in accepted or any(each in _ANY or each in _GENERAL for each in accepted):
        return
    if any(each in _FORMATS for each in accepted):
        raise RestError(FORMAT_MISMATCH, f"the instance reads the format {form}, and the request accepts another one")
    raise RestError(406, "Not Acceptable")
