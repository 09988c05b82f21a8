"""Writes docs/reference/cli.md from the commands themselves; `--check` only says whether it is up to date."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from generated_page import write_or_check
from penstock.cli.app import command

TARGET = Path(__file__).resolve().parents[1] / "docs" / "reference" / "cli.md"
HEAD = """# Command line reference

Written by `tools/generate_cli_docs.py` from the commands. [The guide](../guides/command-line.md) shows them at work.

Every command that talks to a cluster also takes these, not repeated below:

| option | |
|---|---|
"""
SHARED = ("bootstrap_server", "command_config", "settings")


def sub_commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with the words that call it."""
    context = typer.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if hasattr(found, "list_commands"):
            yield from sub_commands(found, f"{path} {name}")
        else:
            yield f"{path} {name}", found


def option_row(parameter: Any, context: typer.Context) -> str:
    names, text = parameter.get_help_record(context)
    return f"| `{escape(names)}` | {escape(text)} |\n"


def escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def describe(words: str, found: Any) -> str:
    context = typer.Context(found, info_name=words)
    parameters = [parameter for parameter in found.params if parameter.name not in SHARED]
    usage = " ".join([words, *found.collect_usage_pieces(context)])
    help_text = found.help.replace("\b\n", "").strip() if found.help else ""
    intro, _, details = help_text.partition("\n\n")
    parts = [f"## {words}\n\n", intro, "\n\n", f"```\n{usage}\n```\n\n"]
    if details:
        parts.append(f"```\n{details}\n```\n\n")
    if parameters:
        parts += ["| | |\n|---|---|\n", *(option_row(parameter, context) for parameter in parameters), "\n"]
    return "".join(parts)


def render() -> str:
    commands = list(sub_commands(command(), "penstock"))
    example = next(found for _, found in commands if any(parameter.name == SHARED[0] for parameter in found.params))
    shared = [parameter for parameter in example.params if parameter.name in SHARED]
    rows = "".join(option_row(parameter, typer.Context(example)) for parameter in shared)
    return HEAD + rows + "\n" + "".join(describe(words, found) for words, found in commands).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check(TARGET, render()))
