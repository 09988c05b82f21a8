"""`penstock schemas get` and `list`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from penstock.cli import output
from penstock.cli.access.schema_files import VersionedSubject, find_version, parse_place
from penstock.cli.errors import UsageError
from penstock.cli.options import AsJson
from penstock.cli.registry_options import on_registry
from penstock.client.registry import RegisteredSchema, RegistryClient

_NAME_HELP = "SUBJECT for the latest version, SUBJECT:VERSION, an id, or a guid."


def describe(schema: RegisteredSchema) -> dict[str, Any]:
    """As the registry's API has it, without what is empty."""
    document: dict[str, Any] = {
        "subject": schema.subject,
        "version": schema.version,
        "id": schema.id,
        "guid": schema.guid,
        **schema.schema.to_json(),
    }
    return {name: value for name, value in document.items() if value is not None}


@on_registry
def get(
    registry: RegistryClient,
    name: Annotated[str, typer.Argument(metavar="SCHEMA", help=_NAME_HELP, show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Print a schema: its text, or with --json all that the registry knows of it."""
    schema = _find(registry, name)
    if as_json:
        output.print_json(describe(schema))
    else:
        output.say(readable(schema.text, schema.schema_type).rstrip("\n"))


def _find(registry: RegistryClient, name: str) -> RegisteredSchema:
    if name.isdecimal() and len(name) < 11:
        return registry.schema_by_id(int(name))
    if len(name) == 36 and name.count("-") == 4 and all(each in "0123456789abcdef-" for each in name.lower()):
        return registry.schema_by_guid(name)
    return find_version(registry, parse_place(name) or VersionedSubject(name, None))


def readable(text: str, schema_type: str) -> str:
    """Avro and JSON over several lines; a .proto file has them already."""
    if schema_type == "PROTOBUF":
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
    except (ValueError, RecursionError):
        return text


@on_registry
def list_schemas(
    registry: RegistryClient,
    subject: Annotated[str | None, typer.Argument(metavar="[SUBJECT]", show_default=False)] = None,
    prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only subjects that begin so; :*: for all.")
    ] = None,
    details: Annotated[bool, typer.Option("--details", "-l", help="With versions, ids and types.")] = False,
    deleted: Annotated[bool, typer.Option("--deleted", help="Those that are deleted, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """List subjects, or the versions of one."""
    if subject is None:
        _list_subjects(registry, registry.administration.subjects(prefix, deleted=deleted), details, deleted, as_json)
        return
    if prefix is not None:
        raise UsageError("--prefix is for the list of subjects", "Drop it, or the subject.")
    _print_versions(registry, [subject], deleted, as_json)


def _list_subjects(registry: RegistryClient, subjects: list[str], details: bool, deleted: bool, as_json: bool) -> None:
    if details:
        _print_versions(registry, subjects, deleted, as_json)
    elif as_json:
        output.print_json(subjects)
    elif not subjects:
        output.note("There are no schemas. Register one: penstock schemas register SUBJECT FILE")
    else:
        for name in subjects:
            output.say(name)


def _print_versions(registry: RegistryClient, subjects: Iterable[str], deleted: bool, as_json: bool) -> None:
    administration = registry.administration
    found: list[tuple[RegisteredSchema, bool]] = []
    for subject in subjects:
        gone = administration.deleted_versions(subject) if deleted else set()
        found += [
            (administration.version(subject, version, deleted=deleted), version in gone)
            for version in administration.versions(subject, deleted=deleted)
        ]
    if as_json:
        output.print_json([{**describe(each), **({"deleted": True} if is_gone else {})} for each, is_gone in found])
        return
    table = output.Table(("SUBJECT", ">VERSION", ">ID", "TYPE", "REFERENCES", *(("DELETED",) if deleted else ())))
    for each, is_gone in found:
        references = ", ".join(f"{one.subject}:{one.version}" for one in each.references) or None
        shown = ("yes" if is_gone else "no",) if deleted else ()
        table.add(each.subject, each.version, each.id, each.schema_type, references, *shown)
    output.print_table(table, "There are no schemas.")
