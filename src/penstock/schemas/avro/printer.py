"""Avro schemas as text, key for key as Java's `Schema.toString` writes them.

A named type is written out where it comes first and by its name afterwards. A namespace is written where it differs
from the enclosing one.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.schemas.avro.model import Array, AvroType, Enum, Field, Fixed, Map, Named, NoDefault, Record, Union
from penstock.schemas.json_text import Json, write_json


def print_schema(schema: AvroType, known_names: Iterable[str] = (), *, with_notes: bool = True) -> str:
    """The text; types with known names are not written out anywhere. Notes are docs and aliases."""
    return write_json(_Printer(set(known_names), with_notes=with_notes).document(schema, None))


class _Printer:
    def __init__(self, known_names: set[str], *, with_notes: bool) -> None:
        self._known = known_names
        self._with_notes = with_notes

    def document(self, schema: AvroType, namespace: str | None) -> Json:
        if isinstance(schema, Union):
            return [self.document(branch, namespace) for branch in schema.branches]
        if isinstance(schema, Array):
            return {"type": "array", "items": self.document(schema.items, namespace), **schema.properties}
        if isinstance(schema, Map):
            return {"type": "map", "values": self.document(schema.values, namespace), **schema.properties}
        if isinstance(schema, Record | Enum | Fixed):
            return self._named(schema, namespace)
        return {"type": schema.kind, **schema.properties} if schema.properties else schema.kind

    def _named(self, schema: Named, namespace: str | None) -> Json:
        name = schema.name
        if name.full in self._known:
            return name.relative_to(namespace)
        self._known.add(name.full)
        document: dict[str, Json] = {"type": schema.kind, "name": name.short}
        if name.namespace != namespace:
            document["namespace"] = name.namespace or ""
        if schema.doc is not None and self._with_notes:
            document["doc"] = schema.doc
        if isinstance(schema, Record):
            if schema.is_error:
                document["type"] = "error"
            document["fields"] = [self._field(each, name.namespace) for each in schema.fields]
        elif isinstance(schema, Enum):
            document["symbols"] = list(schema.symbols)
            if schema.default is not None:
                document["default"] = schema.default
        else:
            document["size"] = schema.size
        document.update(schema.properties)
        if schema.aliases and self._with_notes:
            document["aliases"] = [alias.relative_to(name.namespace) for alias in schema.aliases]
        return document

    def _field(self, field: Field, namespace: str | None) -> Json:
        document: dict[str, Json] = {"name": field.name, "type": self.document(field.type, namespace)}
        if field.doc is not None and self._with_notes:
            document["doc"] = field.doc
        if not isinstance(field.default, NoDefault):
            document["default"] = field.default
        if field.order != "ascending":
            document["order"] = field.order
        if field.aliases and self._with_notes:
            document["aliases"] = list(field.aliases)
        document.update(field.properties)
        return document
