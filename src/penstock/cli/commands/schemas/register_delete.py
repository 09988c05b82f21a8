"""`penstock schemas register` and `delete`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from penstock.cli import output
from penstock.cli.access.registry import explain_refusal
from penstock.cli.access.schema_files import parse_place, read_schema
from penstock.cli.errors import CliError
from penstock.cli.options import AsJson, Yes, confirm
from penstock.cli.registry_options import on_registry
from penstock.cli.text import plural
from penstock.client.registry import RegistryAnswerError, RegistryClient

Answer = TypeVar("Answer")

Subject = Annotated[str, typer.Argument(metavar="SUBJECT", show_default=False)]
SchemaFile = Annotated[Path, typer.Argument(metavar="FILE", help="- is standard input.", show_default=False)]
SchemaTypeName = Annotated[
    str | None,
    typer.Option("--type", metavar="TYPE", help="AVRO, JSON or PROTOBUF; follows from .avsc, .json, .proto."),
]
References = Annotated[
    list[str] | None,
    typer.Option("--reference", metavar="NAME=SUBJECT:VERSION", help="What the schema refers to; may be repeated."),
]
Normalize = Annotated[bool, typer.Option("--normalize", help="Sort what has no order first.")]

# Deleted for good is what was deleted before.
_NOT_SOFT_DELETED = (40405, 40407)


@on_registry
def register(
    registry: RegistryClient,
    subject: Subject,
    file: SchemaFile,
    schema_type: SchemaTypeName = None,
    reference: References = None,
    normalize: Normalize = False,
    as_json: AsJson = False,
) -> None:
    """Register a schema as the next version of a subject; one that is there already keeps its version and id."""
    schema = read_schema(file, schema_type, reference)
    try:
        registered = registry.register(subject, schema, normalize=normalize)
    except RegistryAnswerError as error:
        if error.status != 409:
            raise
        # The registry puts all reasons into one line; asked for them, it gives a list.
        reason = error.message.partition(", details")[0][:300]
        messages = "".join(f"\n  {each}" for each in registry.administration.check(subject, schema).messages[:20])
        raise CliError(f"{subject}: {reason}{messages}", explain_refusal(error).hint) from None
    version = registered.version
    if version is None:  # older registries do not say
        version = registry.lookup(subject, schema, normalize=normalize).version
    if as_json:
        output.print_json({"subject": subject, "version": version, "id": registered.id, "guid": registered.guid})
    else:
        output.say(f"{subject}:{version} has id {registered.id}")


@on_registry
def delete(
    registry: RegistryClient,
    name: Annotated[str, typer.Argument(metavar="SUBJECT[:VERSION]", show_default=False)],
    permanent: Annotated[
        bool, typer.Option("--permanent", help="Remove for good: records with the id can no longer be read.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Delete a version, or a subject with all of them.

    What is deleted is no longer listed or compared with; its id can still be read, and registering the same schema
    brings the id back. Only --permanent removes it.
    """
    place = parse_place(name)
    what = f"version {place}" if place is not None else f"subject {name} with all its versions"
    confirm(f"Delete {what}{' for good' if permanent else ''}?", yes)
    administration = registry.administration
    if place is None:
        count = len(_delete(lambda is_last: administration.delete_subject(name, permanent=is_last), permanent))
        output.note(f"Deleted {plural(count, 'version')} of {name}.")
        return
    version = registry.latest(place.subject).version if place.version is None else place.version
    assert version is not None
    _delete(lambda is_last: administration.delete_version(place.subject, version, permanent=is_last), permanent)
    output.note(f"Deleted {place.subject}:{version}.")


def _delete(ask: Callable[[bool], Answer], permanent: bool) -> Answer:
    """Softly first: a registry removes only what was deleted before."""
    try:
        return ask(permanent)
    except RegistryAnswerError as error:
        if not permanent or error.code not in _NOT_SOFT_DELETED:
            raise
    ask(False)
    return ask(True)
