"""`penstock schemas`: the commands in the order of the help."""

from __future__ import annotations

import typer

from penstock.cli.commands.schemas import changing, comparing, looking, moving

app = typer.Typer(help="Look at, check, change and move schemas.", no_args_is_help=True, rich_markup_mode=None)
for command in (
    changing.register,
    looking.get,
    looking.list_schemas,
    comparing.check,
    comparing.diff,
    changing.delete,
    moving.export,
    moving.import_schemas,
):
    app.command(command.__name__.removesuffix("_schemas"))(command)
