"""The end of the demo: its books as a table, and where to look next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from demo_books import Entry, Places

_SPARK_DEFAULTS = "spark-defaults.conf"


def print_books(console: Console, entries: Sequence[Entry]) -> None:
    table = Table(title="the books", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("")
    for name in ("expected", "found"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for entry in entries:
        table.add_row(entry.what, f"{entry.expected:,}", f"{entry.found:,}", verdict(entry))
    console.print(table)
    wrong = [entry for entry in entries if not entry.is_right]
    if wrong:
        console.print(f"[bold red]The books do not balance:[/] {', '.join(entry.what for entry in wrong)}.")
    else:
        console.print("[bold green]Every line is accounted for, exactly once.[/]")


def verdict(entry: Entry) -> str:
    if entry.is_right:
        return "[green]right[/]"
    wrong = [f"{count:,} {what}" for count, what in ((entry.missing, "missing"), (entry.extra, "too many")) if count]
    return f"[bold red]{', '.join(wrong)}[/]"


def print_next_steps(console: Console, directory: Path, places: Places, groups: Sequence[str], binaries: Path) -> None:
    """Only commands that work on what the demo leaves behind."""
    shown, tools = _relative(directory), _relative(binaries)
    penstock = f"{tools}/penstock"
    select = f"SELECT status, count(*) FROM {places.table} GROUP BY status"
    lake = f"import pyarrow.dataset as d; print(d.dataset('{shown}/lake', partitioning='hive').head(5).to_pandas())"
    steps = (
        ("the topics, with the demo's broker started again in another terminal", ""),
        ("", f"{penstock} broker start --data {shown}/broker --listen 127.0.0.1:9092"),
        ("", f"{penstock} consume {places.fraud} --from beginning --max-messages 3"),
        ("", f"{penstock} consume {places.dead_letters} --from beginning --max-messages 3"),
        ("", f"{penstock} groups describe {groups[0]}"),
        ("the Hive table, with Spark's own shell", ""),
        # Spark's scripts look for Spark by whatever python comes first, unless they are told.
        ("", f'PYSPARK_PYTHON={tools}/python SPARK_CONF_DIR={shown}/conf {tools}/spark-sql -e "{select}"'),
        ("the lake, without Spark", ""),
        ("", f'{tools}/python -c "{lake}"'),
        ("the job, drawn", ""),
        ("", f"{penstock} pipeline describe penstock.pipelines.jobs.ip_fraud"),
    )
    console.print(f"\nEverything is in {shown} until the next demo. To look at")
    for heading, command in steps:
        console.print(f"  [bold]{heading}[/]" if heading else f"    {command}", highlight=False, soft_wrap=True)


def write_spark_defaults(directory: Path, settings: dict[str, str]) -> None:
    """So that Spark's own shells find the table where the job put it."""
    directory.mkdir(parents=True, exist_ok=True)
    lines = [f"{key} {value}\n" for key, value in settings.items()]
    (directory / _SPARK_DEFAULTS).write_text("".join(lines), encoding="utf-8")


def _relative(path: Path) -> str:
    """As one would type it here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
