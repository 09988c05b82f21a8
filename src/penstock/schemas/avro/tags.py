"""Tags inside an Avro schema: `confluent:tags` of records and fields. The path is the record's full name."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.schemas.avro.model import Name
from penstock.schemas.json_text import Json
from penstock.schemas.tags import FIELD, RECORD, Entity, json_entity


def entities(document: Json) -> Iterator[Entity]:
    """Records and fields of a schema as JSON has it, outermost first, without those that are only named."""
    waiting: list[tuple[Json, str | None]] = [(document, None)]
    while waiting:
        node, namespace = waiting.pop()
        if isinstance(node, list):
            waiting += [(branch, namespace) for branch in reversed(node)]
        elif isinstance(node, dict):
            kind = node.get("type")
            if kind in ("record", "error"):
                record = _name(node, namespace)
                yield json_entity(record.full, RECORD, node)
                fields = [each for each in _list(node.get("fields")) if isinstance(each, dict)]
                yield from (json_entity(f"{record.full}.{each.get('name')}", FIELD, each) for each in fields)
                waiting += [(each.get("type"), record.namespace) for each in reversed(fields)]
            elif isinstance(kind, dict | list):
                waiting.append((kind, namespace))
            else:
                waiting += [(node.get(inner), namespace) for inner in ("items", "values")]


def _name(node: dict[str, Json], namespace: str | None) -> Name:
    own = node.get("namespace")
    return Name.of(str(node.get("name")), own if isinstance(own, str) else namespace)


def _list(node: Json) -> list[Json]:
    return node if isinstance(node, list) else []
