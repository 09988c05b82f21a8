"""`penstock schemas check` and `diff`."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.access.schema_files import (
    LATEST,
    VersionedSubject,
    find_version,
    parse_place,
    parse_schema,
    read_schema,
)
from penstock.cli.commands.schemas.get_list import readable
from penstock.cli.commands.schemas.register_delete import Normalize, References, SchemaFile, SchemaTypeName, Subject
from penstock.cli.errors import ExitCode, UsageError
from penstock.cli.options import AsJson
from penstock.cli.registry_options import on_registry
from penstock.cli.views.schemas import Comparison, Direction
from penstock.client.registry import NewSchema, RegistryClient


@on_registry
def check(
    registry: RegistryClient,
    subject: Subject,
    file: SchemaFile,
    version: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="A number or latest. [default: all that registering would look at]"),
    ] = None,
    schema_type: SchemaTypeName = None,
    reference: References = None,
    as_json: AsJson = False,
) -> None:
    """Ask the registry whether a schema may follow the versions of a subject. Exit code 1: it may not."""
    if version is not None and version != LATEST and not version.isdecimal():
        raise UsageError(f"{version!r} is no version", "Write a number, or latest.")
    verdict = registry.administration.check(subject, read_schema(file, schema_type, reference), version)
    if as_json:
        output.print_json({"is_compatible": verdict.is_compatible, "messages": list(verdict.messages)})
    elif verdict.is_compatible:
        output.note(f"The schema may follow in {subject}.")
    else:
        output.note(f"The schema may not follow in {subject}:")
        for message in verdict.messages:
            output.say(message)
    if not verdict.is_compatible:
        raise typer.Exit(ExitCode.FAILURE)


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two schemas, as it was named."""

    name: str
    schema: NewSchema
    subject: str | None


_SIDE_HELP = "SUBJECT, SUBJECT:VERSION or a file."


@on_registry
def diff(
    registry: RegistryClient,
    old: Annotated[str, typer.Argument(metavar="OLD", help=_SIDE_HELP, show_default=False)],
    new: Annotated[str, typer.Argument(metavar="NEW", help=_SIDE_HELP, show_default=False)],
    schema_type: SchemaTypeName = None,
    reference: References = None,
    normalize: Normalize = False,
    as_json: AsJson = False,
) -> None:
    """Show what changes between two schemas, who can read whose data, and what the level of the subject says to it.

    A new file has the references of the old schema unless it is given its own.
    """
    before = _find(registry, old, schema_type, None)
    after = _find(registry, new, schema_type, reference)
    if reference is None and after.subject is None:
        after = replace(
            after, subject=before.subject, schema=replace(after.schema, references=before.schema.references)
        )
    comparison = _compare(registry, before, after, normalize=normalize)
    if as_json:
        output.print_json(comparison.to_json())
    else:
        for line in comparison.lines():
            output.say(line)


def _find(registry: RegistryClient, name: str, schema_type: str | None, references: list[str] | None) -> _Side:
    place = parse_place(name)
    if name == "-" or (place is None and Path(name).is_file()):
        return _Side(name, read_schema(Path(name), schema_type, references), None)
    found = find_version(registry, place or VersionedSubject(name, None))
    return _Side(f"{found.subject}:{found.version}", found.schema, found.subject)


def _compare(registry: RegistryClient, before: _Side, after: _Side, *, normalize: bool) -> Comparison:
    from penstock.schemas.schema import Policy

    parsed = [parse_schema(registry, side.schema, side.subject) for side in (before, after)]
    if normalize:
        parsed = [each.normalized() for each in parsed]
    old_lines, new_lines = (readable(each.canonical_text, each.schema_type).splitlines() for each in parsed)
    changes = list(difflib.unified_diff(old_lines, new_lines, before.name, after.name, lineterm=""))
    level = _level(registry, before.subject or after.subject)
    if parsed[0].schema_type is not parsed[1].schema_type:
        other = Direction(("the types of the schemas differ",))
        return Comparison(before.name, after.name, changes, other, other, level)
    backward = parsed[1].differences_from(parsed[0], Policy.STRICT)
    forward = parsed[0].differences_from(parsed[1], Policy.STRICT)
    return Comparison(
        before.name,
        after.name,
        changes,
        Direction(tuple(each.text(reader="new", writer="old") for each in backward)),
        Direction(tuple(each.text(reader="old", writer="new") for each in forward)),
        level,
    )


def _level(registry: RegistryClient, subject: str | None) -> str | None:
    if subject is None:
        return None
    return str(registry.administration.config(subject, with_default=True).get("compatibilityLevel") or "") or None
