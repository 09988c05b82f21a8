"""Tags inside a JSON schema: `confluent:tags` of objects and their properties.

The outermost object is `object`, its property `a` is `object.a`, and the object in that is `object.a.object`.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.schemas.json_schema.drafts import subschemas
from penstock.schemas.json_text import Json
from penstock.schemas.tags import FIELD, RECORD, Entity, json_entity


def entities(document: Json) -> Iterator[Entity]:
    """Objects and properties, outermost first. One object may be a field of one and the record of another."""
    waiting: list[tuple[Json, str]] = [(document, "")]
    while waiting:
        node, outer = waiting.pop()
        if not isinstance(node, dict):
            continue
        properties = node.get("properties")
        path = f"{outer}.object" if outer else "object"
        inner: list[tuple[Json, str]] = []
        if isinstance(properties, dict) or node.get("type") == "object":
            # Tags of a property stand at the property, so a record has tags only at the outermost object.
            if not outer:
                yield json_entity(path, RECORD, node)
            for name, each in properties.items() if isinstance(properties, dict) else ():
                if isinstance(each, dict):
                    yield json_entity(f"{path}.{name}", FIELD, each)
                    inner.append((each, f"{path}.{name}"))
        inner += [(each, outer) for keywords, each in subschemas(node) if keywords[0] != "properties"]
        waiting += reversed(inner)
