"""The command tree, loaded one group at a time: a command pays only for its own imports."""

from __future__ import annotations

import importlib
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup


class LazyCommand(NamedTuple):
    target: str  # module:attribute
    is_group: bool = True


COMMANDS: dict[str, LazyCommand] = {
    "broker": LazyCommand("penstock.cli.commands.broker:app"),
    "topics": LazyCommand("penstock.cli.commands.topics:app"),
    "produce": LazyCommand("penstock.cli.commands.records.produce:app", is_group=False),
    "consume": LazyCommand("penstock.cli.commands.records.consume:app", is_group=False),
    "schemas": LazyCommand("penstock.cli.commands.schemas.app:app"),
    "groups": LazyCommand("penstock.cli.commands.groups:app"),
    "transactions": LazyCommand("penstock.cli.commands.transactions:app"),
    "configs": LazyCommand("penstock.cli.commands.configs:app"),
    "quotas": LazyCommand("penstock.cli.commands.security.quotas:app"),
    "users": LazyCommand("penstock.cli.commands.security.users:app"),
    "tokens": LazyCommand("penstock.cli.commands.security.tokens:app"),
    "cluster": LazyCommand("penstock.cli.commands.cluster:app"),
    "brokers": LazyCommand("penstock.cli.commands.brokers:app"),
    "leaders": LazyCommand("penstock.cli.commands.leaders:app"),
    "reassign": LazyCommand("penstock.cli.commands.reassign:app"),
    "acls": LazyCommand("penstock.cli.commands.security.acls:app"),
    "policies": LazyCommand("penstock.cli.commands.security.policies:app"),
    "audit": LazyCommand("penstock.cli.commands.security.audit:app"),
    "certificates": LazyCommand("penstock.cli.commands.security.certificates:app"),
    "zookeeper": LazyCommand("penstock.cli.commands.zookeeper:app"),
    "rest": LazyCommand("penstock.cli.commands.rest:app"),
    "log": LazyCommand("penstock.cli.commands.log:app"),
    "registry": LazyCommand("penstock.cli.commands.registry:app"),
    "pipeline": LazyCommand("penstock.cli.commands.pipeline:app"),
    "streams": LazyCommand("penstock.cli.commands.streams:app"),
    "sql": LazyCommand("penstock.cli.commands.sql.app:app", is_group=False),
    "perf": LazyCommand("penstock.cli.commands.perf:app"),
}


class LazyGroup(TyperGroup):
    """Looks a sub-command up in COMMANDS and imports it when it is first asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | TyperGroup | None:
        if cmd_name not in COMMANDS:
            return None
        module_name, _, attribute = COMMANDS[cmd_name].target.partition(":")
        application: typer.Typer = getattr(importlib.import_module(module_name), attribute)
        application._add_completion = False  # only the root offers to install it
        loaded = typer.main.get_command(application)
        assert isinstance(loaded, TyperCommand | TyperGroup)
        loaded.name = cmd_name
        return loaded

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # what "did you mean" chooses from
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"penstock {version('penstock')}")
        except PackageNotFoundError:
            typer.echo("penstock (not installed)")
        raise typer.Exit


@app.callback()
def penstock(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Event streaming that any Kafka client can use.

    Everything but what starts servers works with Apache Kafka as well; `log` reads its files.
    """


def command() -> TyperGroup:
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    return root
