"""`penstock schemas export` and `import`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli import output
from penstock.cli.access.registry import explain_refusal
from penstock.cli.commands.schemas.get_list import describe
from penstock.cli.errors import UsageError
from penstock.cli.options import Yes, confirm
from penstock.cli.plans.schema_transfer import Transfer, in_order, read_transfer
from penstock.cli.registry_options import on_registry
from penstock.cli.text import plural
from penstock.client.registry import RegisteredSchema, RegistryAnswerError, RegistryClient
from penstock.core.words.visible_text import harmless_json

_IMPORT = "IMPORT"


@on_registry
def export(
    registry: RegistryClient,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="- is standard output.", show_default=False)],
    prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only subjects that begin so; :*: for all.")
    ] = None,
    deleted: Annotated[
        bool,
        typer.Option("--deleted/--no-deleted", help="Versions that are deleted: records may still name their ids."),
    ] = True,
) -> None:
    """Write schemas with their ids, references and levels to a file that `import` takes into another registry."""
    administration = registry.administration
    schemas: list[dict[str, Any]] = []
    configs: dict[str, dict[str, Any]] = {"": administration.config()}
    for subject in administration.subjects(prefix, deleted=deleted):
        gone = administration.deleted_versions(subject) if deleted else set()
        for version in administration.versions(subject, deleted=deleted):
            found = describe(administration.version(subject, version, deleted=deleted))
            schemas.append({**found, **({"deleted": True} if version in gone else {})})
        config = _own_config(registry, subject)
        if config is not None:
            configs[subject] = config
    transfer = Transfer(in_order(schemas), configs)
    text = json.dumps(transfer.to_json(), ensure_ascii=False, indent=1) + "\n"
    if str(file) == "-":
        output.say(harmless_json(text.rstrip("\n")))
    else:
        file.write_text(text, encoding="utf-8")
    output.note(f"{plural(len(schemas), 'version')} of {plural(len(transfer.subjects), 'subject')}.")


def _own_config(registry: RegistryClient, subject: str) -> dict[str, Any] | None:
    try:
        return registry.administration.config(subject)
    except RegistryAnswerError as error:
        if error.is_not_found:
            return None
        raise


@on_registry
def import_schemas(
    registry: RegistryClient,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="- is standard input.", show_default=False)],
    force: Annotated[
        bool, typer.Option("--force", help="Also into subjects that have versions; equal ones stay as they are.")
    ] = False,
    context: Annotated[
        str | None, typer.Option(metavar="NAME", help="Into this context of the registry: ids count anew there.")
    ] = None,
    with_global: Annotated[
        bool, typer.Option("--global-config", help="Take over the level of the registry as well, not only of subjects.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Register the schemas of an exported file with their own ids and versions.

    Subjects are in mode IMPORT meanwhile, and have their mode again afterwards. A registry has to allow that:
    Confluent's needs mode.mutability=true.
    """
    transfer = read_transfer(_read(file))
    if context is not None:
        transfer = transfer.into_context(context)
    subjects = transfer.subjects
    confirm(f"Import {plural(len(transfer.schemas), 'version')} into {plural(len(subjects), 'subject')}?", yes)
    administration = registry.administration
    with _importing(registry, subjects, force=force):
        for each in transfer.schemas:
            _register(registry, each)
        for each in transfer.schemas:
            if each.get("deleted"):
                _delete(registry, each)
    for subject, config in transfer.configs.items():
        if subject or with_global:
            administration.set_config(_as_put(config), subject or None)
    registry.forget()
    output.note(f"Imported {plural(len(transfer.schemas), 'version')} into {plural(len(subjects), 'subject')}.")


def _read(file: Path) -> Any:
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return json.loads(data)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{file} is no JSON", "Write the file with `penstock schemas export`.") from None


@contextmanager
def _importing(registry: RegistryClient, subjects: list[str], *, force: bool) -> Iterator[None]:
    """Gives every subject its mode back, also when something fails in between."""
    administration = registry.administration
    before: dict[str, str | None] = {}
    try:
        for subject in subjects:
            try:
                own: str | None = administration.mode(subject)
            except RegistryAnswerError as error:
                if not error.is_not_found:
                    raise
                own = None
            try:
                administration.set_mode(_IMPORT, subject, force=force)
            except RegistryAnswerError as error:
                raise explain_refusal(error, subject) from None
            before[subject] = own
        yield
    finally:
        for subject, mode in before.items():
            if mode is not None:
                administration.set_mode(mode, subject, force=True)
                continue
            try:
                administration.delete_mode(subject)
            except RegistryAnswerError as error:
                if not error.is_not_found:  # the mode went with the last version of the subject that was deleted
                    raise


def _register(registry: RegistryClient, each: dict[str, Any]) -> None:
    place = f"{each['subject']}:{each['version']}"
    schema = RegisteredSchema.of_json(each).schema
    try:
        given = registry.administration.register_as(each["subject"], schema, each["id"], each["version"])
    except RegistryAnswerError as error:
        raise explain_refusal(error, place) from None
    if given != each["id"]:
        raise UsageError(f"{place} has id {given} there, not {each['id']}", "Import into an empty registry or context.")


def _delete(registry: RegistryClient, each: dict[str, Any]) -> None:
    try:
        registry.administration.delete_version(each["subject"], each["version"])
    except RegistryAnswerError as error:
        if error.code != 40406:  # deleted already
            raise explain_refusal(error, f"{each['subject']}:{each['version']}") from None


def _as_put(config: dict[str, Any]) -> dict[str, Any]:
    """The API takes the level by another name than it gives it."""
    renamed = dict(config)
    if "compatibilityLevel" in renamed:
        renamed["compatibility"] = renamed.pop("compatibilityLevel")
    return renamed
