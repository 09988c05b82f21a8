"""Schemas in a file that another registry takes, and the order in which it takes them.

The file is JSON: the versions of subjects as the registry's API has them, each after all that it refers to, and the
configuration of subjects. Ids are kept, because records name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.cli.errors import UsageError

FORMAT = "penstock-schemas"
FORMAT_VERSION = 1
_HINT = "Write the file with `penstock schemas export`."

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Transfer:
    """What a file has."""

    # Each as the API has it, with `subject`, `version`, `id` and `schema`, and `deleted` where it is.
    schemas: list[dict[str, Any]]
    # By subject; the empty name stands for the registry's own.
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def subjects(self) -> list[str]:
        return list(dict.fromkeys(each["subject"] for each in self.schemas))

    def into_context(self, name: str) -> Transfer:
        """All subjects that have no context of their own. References are relative to the schema that has them."""
        if not name or ":" in name:
            raise UsageError(f"{name!r} is no name of a context", "Write it without colons, as in --context staging.")
        prefix = f":.{name.removeprefix('.')}:"

        def moved(subject: str) -> str:
            return subject if not subject or subject.startswith(":") else prefix + subject

        return Transfer(
            [{**each, "subject": moved(each["subject"])} for each in self.schemas],
            {moved(subject): config for subject, config in self.configs.items()},
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "schemas": self.schemas,
            "configs": self.configs,
        }


def in_order(schemas: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each after all that it refers to, otherwise by subject and version."""
    by_key: dict[Key, dict[str, Any]] = {(each["subject"], each["version"]): dict(each) for each in schemas}
    ordered: dict[Key, None] = {}
    waiting = sorted(by_key, reverse=True)
    under_way: set[Key] = set()
    while waiting:
        key = waiting[-1]
        needed = [
            each
            for each in _references(by_key[key])
            if each in by_key and each not in ordered and each not in under_way
        ]
        if key in ordered or not needed:
            ordered[waiting.pop()] = None
            continue
        under_way.add(key)
        waiting += needed
    return [by_key[key] for key in ordered]


def _references(schema: Mapping[str, Any]) -> list[Key]:
    return [(each["subject"], each["version"]) for each in schema.get("references") or ()]


def read_transfer(document: Any) -> Transfer:
    """Raises UsageError for what is no such file."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise UsageError("the file has no exported schemas", _HINT)
    if document.get("format_version") != FORMAT_VERSION:
        raise UsageError("the file was written by a newer penstock", "Import it with that one.")
    schemas, configs = document.get("schemas"), document.get("configs", {})
    if not isinstance(schemas, list) or not isinstance(configs, dict):
        raise UsageError("the file is damaged: it has no list of schemas", _HINT)
    for position, each in enumerate(schemas):
        if not _is_schema(each):
            raise UsageError(f"the file is damaged: schema {position + 1} has no subject, version, id or text", _HINT)
    return Transfer(in_order(schemas), {str(name): dict(value) for name, value in configs.items()})


def _is_schema(each: Any) -> bool:
    if not isinstance(each, dict):
        return False
    texts = all(isinstance(each.get(name), str) for name in ("subject", "schema"))
    references = each.get("references") or []
    return (
        texts
        and all(isinstance(each.get(name), int) for name in ("version", "id"))
        and isinstance(references, list)
        and all(
            isinstance(one, dict) and isinstance(one.get("subject"), str) and isinstance(one.get("version"), int)
            for one in references
        )
    )
