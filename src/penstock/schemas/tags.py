"""Tags inside a schema, at records and fields: the part that all formats share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from penstock.schemas.json_text import Json
from penstock.schemas.schema import InvalidSchemaError, SchemaTags

TAGS = "confluent:tags"
RECORD = "sr_record"
FIELD = "sr_field"


@dataclass(frozen=True, slots=True)
class Entity:
    """A record or a field of a schema. `write` changes the schema that it is a part of."""

    path: str
    kind: str
    tags: tuple[str, ...]
    write: Callable[[tuple[str, ...]], None]


def json_entity(path: str, kind: str, node: dict[str, Json]) -> Entity:
    """The tags are a list in the JSON object itself."""
    tags = node.get(TAGS)

    def write(tags: tuple[str, ...]) -> None:
        if tags:
            node[TAGS] = list(tags)
        else:
            node.pop(TAGS, None)

    return Entity(path, kind, tuple(map(str, tags)) if isinstance(tags, list) else (), write)


def tags_of(entities: Iterable[Entity]) -> list[SchemaTags]:
    return [SchemaTags(each.path, each.kind, each.tags) for each in entities if each.tags]


def retag(entities: Iterable[Entity], add: Sequence[SchemaTags], remove: Sequence[SchemaTags]) -> None:
    """Adds, and then removes. Every change has to name an entity of the schema."""
    by_place = {(each.path, each.kind): each for each in entities}
    changed: dict[tuple[str, str], dict[str, None]] = {}
    for change in (*add, *remove):
        place = (change.entity_path.removeprefix("."), change.entity_type.lower())
        if place not in by_place:
            raise InvalidSchemaError(f"No {change.entity_type} '{change.entity_path}' found in the schema")
        changed.setdefault(place, dict.fromkeys(by_place[place].tags))
    for change in add:
        changed[change.entity_path.removeprefix("."), change.entity_type.lower()].update(dict.fromkeys(change.tags))
    for change in remove:
        tags = changed[change.entity_path.removeprefix("."), change.entity_type.lower()]
        for tag in change.tags:
            tags.pop(tag, None)
    for place, tags in changed.items():
        by_place[place].write(tuple(tags))
