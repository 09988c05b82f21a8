"""`penstock streams`: the commands in the order of the help."""

from __future__ import annotations

import typer

from penstock.cli.commands.streams.query import query
from penstock.cli.commands.streams.run_describe_reset import describe, reset, run
from penstock.cli.commands.streams.serve import serve

app = typer.Typer(
    help="Run streams and tables of topics on Spark, and ask for their state.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
for command in (
    run,
    describe,
    reset,
    serve,
    query,
):
    app.command(command.__name__)(command)
