"""What a schema refers to, directly and through others."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.client.registry.errors import RegistryAnswerError
from penstock.client.registry.model import NewSchema, ReferencedSchema, RegisteredSchema, SchemaReference

# As penstock.schemas has it for one schema.
_MOST_REFERENCES = 1_000
_MOST_BYTES = 4 << 20

ReadVersion = Callable[[str, int], RegisteredSchema]


def context_of(subject: str | None) -> str:
    """`:.c:` of `:.c:s`; empty for the default context."""
    if subject is None or not subject.startswith(":."):
        return ""
    end = subject.find(":", 2)
    return "" if end < 0 else subject[: end + 1]


def collect(schema: NewSchema, context: str, read: ReadVersion) -> tuple[ReferencedSchema, ...]:
    """Each after all that it needs itself. The first schema of a name counts, as in Confluent's clients."""
    found: dict[str, ReferencedSchema] = {}
    size = 0
    seen: set[str] = set()
    # What is being looked at: the references that are left of a schema, and the schema itself once those are done.
    waiting: list[tuple[Iterator[SchemaReference], str, ReferencedSchema | None]]
    waiting = [(iter(schema.references), context, None)]
    while waiting:
        references, context, done = waiting[-1]
        reference = next((each for each in references if each.name not in seen), None)
        if reference is None:
            waiting.pop()
            if done is not None:
                found[done.name] = done
            continue
        seen.add(reference.name)
        subject = reference.subject if reference.subject.startswith(":") else context + reference.subject
        referred = read(subject, reference.version)
        size += len(referred.text)
        if len(seen) > _MOST_REFERENCES or size > _MOST_BYTES:
            raise RegistryAnswerError(200, 200, "the schema refers to too many others, or to too large ones")
        done = ReferencedSchema(reference.name, referred.text, reference.subject, reference.version)
        waiting.append((iter(referred.references), context_of(subject), done))
    return tuple(found.values())
