"""Histories of calls to a registry, made from a seed: registrations, lookups, deletions, levels, questions.

A history has subjects of its own, so that any number of them can run on one server, one after the other.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")


@dataclass(frozen=True, slots=True)
class Call:
    kind: str
    method: str
    path: str
    body: dict[str, Any] | None = None


# Where a history's own word goes: texts of two histories are never the same schema.
_WORD = "WORD"


def _record(*fields: object) -> str:
    return json.dumps({"type": "record", "name": "R", "namespace": _WORD, "fields": list(fields)})


_A = {"name": "a", "type": "string"}
_A_LONG = {"name": "a", "type": "long"}
_B = {"name": "b", "type": "int"}
_B_DEFAULT = {"name": "b", "type": "int", "default": 1}
_B_WIDER = {"name": "b", "type": "long", "default": 1}
_C = {"name": "c", "type": ["null", "string"], "default": None}

AVRO = (
    json.dumps({"type": "fixed", "name": "F", "namespace": _WORD, "size": 4}),
    _record(_A),
    _record(_A, _B),
    _record(_A, _B_DEFAULT),
    _record(_A, _B_WIDER),
    _record(_A, _C),
    _record(_A, _B_DEFAULT, _C),
    _record(_A_LONG),
    json.dumps({"type": "enum", "name": "E", "namespace": _WORD, "symbols": ["X", "Y"]}),
    json.dumps({"type": "enum", "name": "E", "namespace": _WORD, "symbols": ["X", "Y", "Z"]}),
)
_CLOSED = {"title": _WORD, "type": "object", "additionalProperties": False}
_STRING, _INTEGER = {"type": "string"}, {"type": "integer"}
JSON = tuple(
    json.dumps(each)
    for each in (
        {**_CLOSED, "properties": {"a": _STRING}},
        {**_CLOSED, "properties": {"a": _STRING, "b": _INTEGER}},
        {**_CLOSED, "properties": {"a": _STRING, "b": _INTEGER}, "required": ["b"]},
        {**_CLOSED, "properties": {"a": _INTEGER}},
        {**_CLOSED, "properties": {"a": {"type": "number"}}},
    )
)
PROTOBUF = tuple(
    f'syntax = "proto3";\npackage {_WORD};\n\nmessage M {{\n{fields}}}\n'
    for fields in (
        "  string a = 1;\n",
        "  string a = 1;\n  int32 b = 2;\n",
        "  string a = 1;\n  int64 b = 2;\n",
        "  string a = 1;\n  string b = 2;\n",
    )
)
_TEXTS = {"AVRO": AVRO, "JSON": JSON, "PROTOBUF": PROTOBUF}
_NO_SCHEMA = {"AVRO": '{"type":"nothing"}', "JSON": '{"type":', "PROTOBUF": "message {"}


def _level_of(subject: str) -> Call:
    return Call("set level", "PUT", f"/config/{subject}", {"compatibility": "BACKWARD"})


class Histories:
    """`pieces` is how many calls one history has."""

    def __init__(self, seed: int, pieces: int = 30) -> None:
        self._random = random.Random(seed)
        self._pieces = pieces
        self._number = 0
        self._word = ""

    def make(self) -> Iterator[Call]:
        self._number += 1
        self._word = f"w{self._number}x{self._random.randrange(1 << 32):08x}"
        kind = self._random.choice(tuple(_TEXTS))
        subjects = [f"{self._word}-{name}" for name in ("x", "y")]
        # Both servers begin at the same level, whatever their default is.
        yield Call("set level", "PUT", "/config", {"compatibility": "BACKWARD"})
        for subject in subjects:
            yield _level_of(subject)
        for _ in range(self._pieces):
            subject = self._random.choice(subjects)
            call = self._call(subject, kind)
            yield call
            if call.method == "DELETE":  # what becomes of the level then differs
                yield _level_of(subject)

    def _call(self, subject: str, kind: str) -> Call:
        make = self._random.choices(
            (self._register, self._look_up, self._read, self._delete, self._set_level, self._check, self._by_id),
            (8, 3, 6, 4, 2, 4, 3),
        )[0]
        return make(subject, kind)

    def _body(self, kind: str) -> dict[str, Any]:
        text = _NO_SCHEMA[kind] if self._random.random() < 0.03 else self._random.choice(_TEXTS[kind])
        return {"schema": text.replace(_WORD, self._word), "schemaType": kind}

    def _version(self) -> str:
        return self._random.choice(("1", "2", "3", "4", "latest", "-1", "0", "x"))

    def _register(self, subject: str, kind: str) -> Call:
        return Call("register", "POST", f"/subjects/{subject}/versions", self._body(kind))

    def _look_up(self, subject: str, kind: str) -> Call:
        query = self._random.choice(("", "?deleted=true"))
        return Call("look up", "POST", f"/subjects/{subject}{query}", self._body(kind))

    def _read(self, subject: str, _: str) -> Call:
        version, deleted = self._version(), self._random.choice(("", "?deleted=true"))
        kind, path = self._random.choice(
            (
                ("versions", f"/subjects/{subject}/versions{deleted}"),
                ("version", f"/subjects/{subject}/versions/{version}{deleted}"),
                ("text", f"/subjects/{subject}/versions/{version}/schema"),
                ("level", f"/config/{subject}"),
                ("level or default", f"/config/{subject}?defaultToGlobal=true"),
                ("referrers", f"/subjects/{subject}/versions/{version}/referencedby"),
            )
        )
        return Call(kind, "GET", path)

    def _delete(self, subject: str, _: str) -> Call:
        permanent = self._random.choice(("", "?permanent=true"))
        if self._random.random() < 0.3:
            return Call("delete subject", "DELETE", f"/subjects/{subject}{permanent}")
        return Call("delete version", "DELETE", f"/subjects/{subject}/versions/{self._version()}{permanent}")

    def _set_level(self, subject: str, _: str) -> Call:
        if self._random.random() < 0.2:
            return Call("delete level", "DELETE", f"/config/{subject}")
        level = "SIDEWARD" if self._random.random() < 0.05 else self._random.choice(LEVELS)
        return Call("set level", "PUT", f"/config/{subject}", {"compatibility": level})

    def _check(self, subject: str, kind: str) -> Call:
        if self._random.random() < 0.3:
            path = f"/compatibility/subjects/{subject}/versions"
        else:
            path = f"/compatibility/subjects/{subject}/versions/{self._version()}"
        return Call("check", "POST", path, self._body(kind))

    def _by_id(self, *_: str) -> Call:
        """`{id}` is one that a registration of the history was answered with."""
        which = self._random.choice(("", "/schema", "/subjects", "/versions"))
        return Call(f"by id{which}", "GET", f"/schemas/ids/{{id}}{which}")
