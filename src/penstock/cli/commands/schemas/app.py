"""`penstock schemas`: the commands in the order of the help."""

from __future__ import annotations

import typer

from penstock.cli.commands.schemas import check_diff, export_import, get_list, register_delete

app = typer.Typer(help="Look at, check, change and move schemas.", no_args_is_help=True, rich_markup_mode=None)
for command in (
    register_delete.register,
    get_list.get,
    get_list.list_schemas,
    check_diff.check,
    check_diff.diff,
    register_delete.delete,
    export_import.export,
    export_import.import_schemas,
):
    app.command(command.__name__.removesuffix("_schemas"))(command)
