"""Options that messages name exist: at the command that is quoted, or else at the commands that can say the message."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer

import penstock.cli
from penstock.cli.app import app

CLI = Path(penstock.cli.__file__).parent
# Said at every command that asks a cluster, whatever it is about.
SHARED = ("access/connect.py", "access/client_properties.py", "access/cluster_client.py")
_CONNECTING = frozenset({"--bootstrap-server", "--command-config"})
# Where the options are made, and what they help with.
_MAKING = frozenset({"Option", "Argument", "Typer", "_option"})
_OPTION = re.compile(r"(?<![\w/'{-])(--[a-z][a-z-]*[a-z]|-(?!N)[A-Za-z])(?![\w{-])")
_QUOTED = re.compile(r"penstock ((?:[a-z][a-z-]* )+)([^`),]*)(.*)")
_OF_OTHERS = re.compile(r"`(?!penstock)[a-z]+ [^`]*`|\b(?:kill|ssh|tail) -?\S*")


class Command(NamedTuple):
    path: str
    module: str
    options: frozenset[str]


@functools.cache
def commands() -> tuple[Command, ...]:
    return tuple(_leaves(typer.main.get_command(app), ()))


def _leaves(command: Any, path: tuple[str, ...]) -> Iterator[Command]:
    context = typer.Context(command)
    options = frozenset(name for each in command.params for name in (*each.opts, *each.secondary_opts))
    module = getattr(command.callback, "__module__", "")
    yield Command(" ".join(path), module, options | {"--help"})
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            yield from _leaves(command.get_command(context, name), (*path, name))


def texts_of(tree: ast.AST) -> Iterator[str]:
    """All but the help of options and docstrings."""
    for child in ast.iter_child_nodes(tree):
        is_docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        called = child.func if isinstance(child, ast.Call) else None
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        if is_docstring or name in _MAKING:
            continue
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value
        elif isinstance(child, ast.JoinedStr):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in child.values)
        else:
            yield from texts_of(child)


def named_options(text: str) -> Iterator[tuple[str | None, str]]:
    """Each with the command that it is quoted with. -N is no option, and programs of others have their own."""
    known = {command.path for command in commands()}
    for line in _OF_OTHERS.sub("", text).splitlines():
        quoted = _QUOTED.search(line)
        own = line if quoted is None else f"{line[: quoted.start()]} {quoted[3]}"
        yield from ((None, option) for option in _OPTION.findall(own))
        if quoted is not None:
            words = quoted[1].split()
            while " ".join(words) not in known:
                words.pop()
            yield from ((" ".join(words), option) for option in _OPTION.findall(quoted[2]))


def options_in(module: str) -> Iterator[tuple[str | None, str]]:
    for text in texts_of(ast.parse((CLI / module).read_text())):
        yield from named_options(text)


def test_options_that_messages_name_exist() -> None:
    by_path = {command.path: command.options for command in commands()}
    by_module: dict[str, set[str]] = {}
    for command in commands():
        by_module.setdefault(command.module, set()).update(command.options)
    everywhere = set().union(*by_path.values())
    unknown = []
    for file in CLI.rglob("*.py"):
        module = str(file.relative_to(CLI))
        own = by_module.get(f"penstock.cli.{module.removesuffix('.py').replace('/', '.')}", everywhere)
        for path, option in options_in(module):
            if option not in (own if path is None else by_path[path]):
                unknown.append((module, path, option))
    assert unknown == []


def test_options_that_are_named_at_every_command_on_a_cluster_exist_at_each() -> None:
    on_cluster = [command for command in commands() if _CONNECTING & command.options]
    unknown = [
        (module, option, command.path)
        for module in SHARED
        for path, option in options_in(module)
        for command in on_cluster
        if path is None and option not in command.options
    ]
    assert unknown == []
