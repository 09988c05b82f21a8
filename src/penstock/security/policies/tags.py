"""Tags of topics: `penstock.tags=pii,region:eu`, and tags that topics have by the beginning of their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.core.config.keys.authorization import PREFIX_TAGS_KEY, TAGS_KEY, split_prefix_tags

__all__ = ["PREFIX_TAGS_KEY", "TAGS_KEY", "parse_prefix_tags", "parse_tags", "tags_of"]


def parse_tags(value: str) -> tuple[str, ...]:
    """The tags of a stored setting, which was checked then."""
    return tuple(dict.fromkeys(tag for part in value.split(",") if (tag := part.strip())))


def parse_prefix_tags(elements: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """The tags by prefix. Elements were checked as settings."""
    found: dict[str, tuple[str, ...]] = {}
    for element in elements:
        pair = split_prefix_tags(element)
        if pair is not None:
            prefix, tags = pair
            found[prefix] = found.get(prefix, ()) + tags
    return found


def tags_of(name: str, configs: Mapping[str, str], by_prefix: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The tags of a topic, which need not exist yet: the tags of its prefix hold from the beginning."""
    own = configs.get(TAGS_KEY)
    tags = list(parse_tags(own)) if own else []
    for prefix, given in by_prefix.items():
        if name.startswith(prefix):
            tags += given
    return tuple(dict.fromkeys(tags))
