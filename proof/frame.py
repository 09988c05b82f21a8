"""The frame of all rounds: arguments, seed, scratch directory, progress, result and exit code.

    python -m proof crash --rounds 100 --seed 7

A kind of rounds is one line of `proof.kinds` and a module with `run(task) -> Report`. Its own options stand in
that line too. The frame does the rest, so that every kind is used in the same way:

- the seed is printed first; without `--seed` it is chosen by chance
- progress is printed as it comes, with the seconds since the start
- the last line is the result: what was done, what was found, the verdict
- the exit code is 0 when every promise was kept and 1 otherwise
- everything is written below one scratch directory, which is removed unless `--keep` names it or a promise was broken
"""

from __future__ import annotations

import argparse
import importlib
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

Say = Callable[[str], None]


def say_nothing(_: str) -> None:
    """The `Say` of rounds that run inside of a test."""


class Report(Protocol):
    """What rounds return. Its text is the result in one line, with examples of what was found below it."""

    @property
    def is_sound(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Option:
    """An option that one kind of rounds has beside those that all have; `details` are argparse's."""

    name: str
    help: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of rounds. Its module is imported when it is asked for: some need Spark."""

    name: str
    module: str
    summary: str
    count: float  # how many `unit`s there are unless the command line says otherwise
    unit: str
    options: tuple[Option, ...] = ()
    count_option: str = "--rounds"
    is_timed: bool = False  # runs for --seconds instead of for --rounds
    is_in_memory: bool = False  # thousands of small files: what is tried are the bytes, not the disk beneath them
    seedless: str = ""  # with this option nothing is left to chance, and no seed is printed

    def run(self, task: Task) -> Report:
        report: Report = importlib.import_module(self.module).run(task)
        return report


@dataclass(frozen=True, slots=True)
class Task:
    """What one run is to do."""

    seed: int
    count: float
    scratch: Path
    say: Say = say_nothing
    options: Mapping[str, Any] = field(default_factory=dict)
    is_kept: bool = False  # the scratch directory, whatever comes

    @property
    def rounds(self) -> int:
        return int(self.count)


def main(kinds: Sequence[Kind], arguments: Sequence[str] | None = None) -> int:
    parser = _make_parser(kinds)
    given = vars(parser.parse_args(arguments))
    kind: Kind = given.pop("kind")
    seed, count, kept = given.pop("seed"), given.pop("count"), given.pop("keep")
    if seed is None:
        seed = random.SystemRandom().randrange(2**32)
    if not (kind.seedless and given[kind.seedless]):
        print(f"seed {seed}", flush=True)
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:6.1f} s  {text}", flush=True)

    scratch = _make_scratch(kind, kept)
    is_kept = kept is not None
    try:
        report = kind.run(Task(seed, count, scratch, say, given, is_kept))
        # What is in memory stays there for nobody: the seed makes it again.
        is_kept = is_kept or not (report.is_sound or kind.is_in_memory)
    except Exception:
        is_kept = is_kept or not kind.is_in_memory
        raise
    finally:
        if kept is None and (not is_kept or not any(scratch.iterdir())):
            shutil.rmtree(scratch, ignore_errors=True)
        elif kept is None:
            print(f"what was written is kept in {scratch}", flush=True)
    print(report, flush=True)
    return 0 if report.is_sound else 1


def _make_parser(kinds: Sequence[Kind]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m proof", description="Try to break a broker, and check what it promised its clients."
    )
    commands = parser.add_subparsers(required=True, metavar="KIND")
    for kind in kinds:
        command = commands.add_parser(kind.name, help=kind.summary, description=kind.summary)
        command.set_defaults(kind=kind)
        _add_count(command, kind)
        command.add_argument("--seed", type=int, metavar="N", help="default: chosen by chance, and printed")
        command.add_argument(
            "--keep", type=Path, metavar="DIRECTORY", help="where everything is written and stays (default: removed)"
        )
        for option in kind.options:
            command.add_argument(option.name, help=option.help, **option.details)
    return parser


def _add_count(command: argparse.ArgumentParser, kind: Kind) -> None:
    name, number = ("--seconds", float) if kind.is_timed else (kind.count_option, int)
    text = f"how many {kind.unit} (default: {kind.count:,})"
    command.add_argument(name, dest="count", type=number, metavar="N", default=kind.count, help=text)


def _make_scratch(kind: Kind, kept: Path | None) -> Path:
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        return kept
    root = memory_directory() if kind.is_in_memory else None
    return Path(tempfile.mkdtemp(prefix=f"penstock-{kind.name}-", dir=root))


def memory_directory() -> str | None:
    """A file system in memory; None where there is none."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
