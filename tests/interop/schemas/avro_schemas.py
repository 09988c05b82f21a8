"""Avro schemas by chance: with namespaces, aliases, properties, defaults that fit and defaults that do not."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

DEFAULTS: dict[str, list[Any]] = {
    "null": [None],
    "boolean": [True, False],
    "int": [1, -5, 2**31],
    "long": [2, 2**40, 1.5],
    "float": [0.5, 1, 1e10, "NaN", "1.5", "x"],
    "double": [1.5, 3, 1e-5, 12345678.25, "Infinity"],
    "bytes": ["b", "\u00ff"],
    "string": ["s", 'é\u0001"\\'],
    "array": [[]],
    "map": [{}],
    "record": [{}],
}
PRIMITIVES = list(DEFAULTS)[:8]
PROPERTIES: list[Any] = [1, 1.0, 2.50, "é", {"b": 1, "a": [None, True]}, 1e-7]


class SchemaMaker:
    """One schema. Names are few, so that schemas have things in common."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._names: list[str] = []

    def make(self, depth: int, namespace: str | None, *, in_union: bool = False) -> Any:
        kinds = ["primitive"] * 4 + ["known", "array", "map", "union", "enum", "fixed", "record"]
        kind = self._chance.choice(kinds) if depth else "primitive"
        if kind == "known" and self._names:
            full = self._chance.choice(self._names)
            return self._chance.choice([full, full, full.rpartition(".")[2]])
        if kind == "union" and not in_union:
            return [self.make(depth - 1, namespace, in_union=True) for _ in range(self._chance.randint(1, 4))]
        if kind in ("array", "map"):
            part = {"array": "items", "map": "values"}[kind]
            return self._with_property({"type": kind, part: self.make(depth - 1, namespace)})
        if kind in ("enum", "fixed"):
            return self._named(kind, namespace)[0]
        return self._record(depth, namespace) if kind == "record" else self._primitive()

    def _is(self, probability: float) -> bool:
        return self._chance.random() < probability

    def _with_property(self, schema: dict[str, Any]) -> dict[str, Any]:
        if self._is(0.2):
            schema["x-" + self._chance.choice("abc")] = self._chance.choice(PROPERTIES)
        return schema

    def _primitive(self) -> Any:
        kind = self._chance.choice(PRIMITIVES)
        if self._is(0.1):
            logical = self._chance.choice(["date", "decimal", "uuid", "timestamp-millis"])
            return {"type": kind, "logicalType": logical, "precision": 4, "scale": self._chance.choice([0, 2])}
        return self._with_property({"type": kind}) if self._is(0.2) else kind

    def _named(self, kind: str, namespace: str | None) -> tuple[dict[str, Any], str | None]:
        """A definition, and the namespace inside of it."""
        name = self._chance.choice("ABCDEF") + self._chance.choice(["", "2"])
        schema: dict[str, Any] = {"type": kind, "name": name}
        if self._is(0.4):
            schema["namespace"] = self._chance.choice(["n", "n.m", "", "o"])
        elif self._is(0.2):
            schema["name"] = f"{self._chance.choice(['n', 'p.q'])}.{name}"
        if self._is(0.2):
            schema["doc"] = self._chance.choice(["", "doc é"])
        if self._is(0.2):
            schema["aliases"] = self._chance.sample(["A", "B", "n.C", "o.D", "Z"], self._chance.randint(1, 2))
        if kind == "enum":
            schema["symbols"] = self._chance.sample("ABC", self._chance.randint(1, 3))
            schema |= {"default": self._chance.choice([*schema["symbols"], "Q"])} if self._is(0.3) else {}
        elif kind == "fixed":
            schema["size"] = self._chance.choice([1, 2, 12, 16])
        outer = schema.get("namespace", namespace) or ""
        full = schema["name"] if "." in schema["name"] else f"{outer}.{name}".lstrip(".")
        self._names.append(full)
        return self._shuffled(self._with_property(schema)), full.rpartition(".")[0] or None

    def _record(self, depth: int, namespace: str | None) -> Any:
        schema, inner = self._named("error" if self._is(0.1) else "record", namespace)
        names = self._chance.sample("abcd", self._chance.randint(0, 4))
        return schema | {"fields": [self._field(name, depth, inner) for name in names]}

    def _field(self, name: str, depth: int, namespace: str | None) -> dict[str, Any]:
        kind = self.make(depth - 1, namespace)
        field = {"name": name, "type": kind}
        branch = self._chance.choice(kind) if isinstance(kind, list) else kind
        values = DEFAULTS.get(str(branch.get("type")) if isinstance(branch, dict) else branch)
        if values is not None and self._is(0.5):
            field["default"] = self._chance.choice(values)
        if self._is(0.1):
            field["order"] = self._chance.choice(["ascending", "descending", "ignore", "ASCENDING"])
        if self._is(0.15):
            # Not its own name: Java takes that for two fields.
            field["aliases"] = [self._chance.choice("abz".replace(name, ""))]
        return self._shuffled(self._with_property(field))

    def _shuffled(self, schema: dict[str, Any]) -> dict[str, Any]:
        items = list(schema.items())
        self._chance.shuffle(items)
        return dict(items)


def changed(schema: Any, chance: random.Random) -> Any:
    """The schema with up to two small changes."""
    document = json.loads(json.dumps(schema))
    nodes = [each for each in _walk(document) if isinstance(each, dict | list) and each]
    for node in chance.sample(nodes, min(len(nodes), chance.randint(0, 2))):
        if isinstance(node, list):
            match chance.randrange(3):
                case 0:
                    node.pop()
                case 1:
                    node.reverse()
                case 2:
                    node.append("int")
        elif node.get("type") in PRIMITIVES:
            node["type"] = chance.choice(PRIMITIVES)
        elif "size" in node:
            node["size"] += 1
        elif "fields" in node:
            node["fields"].append({"name": "z", "type": "int", **({"default": 1} if chance.random() < 0.7 else {})})
    return document


def _walk(document: Any) -> Iterator[Any]:
    yield document
    children = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    for child in children:
        yield from _walk(child)


def pairs(seed: int, count: int) -> Iterator[tuple[str, str]]:
    """Schemas of readers and writers, most of them close to each other."""
    chance = random.Random(seed)
    for _ in range(count):
        writer = SchemaMaker(chance).make(3, None)
        reader = changed(writer, chance) if chance.random() < 0.8 else SchemaMaker(chance).make(3, None)
        yield json.dumps(reader, ensure_ascii=False), json.dumps(writer, ensure_ascii=False)
