"""What a failing test leaves is kept: the data and logs of the servers that it used, and its `tmp_path`.

pytest keeps the temporary directories of its last three runs, and `make test` is eight of them; a cluster without a
directory of its own removes its data when its block is left, before anybody knows that the test has failed. So the
directories of a failing test go to .cache/kept/<test>-<time>, and the report says where, with the last lines of each
server's log.

Rules:
- Logs are read when the test fails, before its servers are stopped. Directories are taken when they are.
- What belongs to the test is moved. What servers for several tests write is copied, since they go on.
- A test that passes keeps nothing: what its servers left is removed as ever, only at the end of the test.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import pytest

from penstock.core import leftovers
from penstock.core.leftovers import Server

_REPOSITORY = Path(__file__).resolve().parents[1]
# Where `make often` collects what its rounds keep.
PLACE = "PENSTOCK_KEPT"
SECTION = "What the test left"
_TAIL_LINES = 20
_TAIL_BYTES = 100_000
_LINE_CHARACTERS = 300
# Of servers whose logs are shown; with more of them nobody reads on.
_MOST_LOGS = 12
_NAME_CHARACTERS = 80
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9._-]+")


class Limits(NamedTuple):
    places: int = 20
    total_bytes: int = 4 * 1024**3
    one_bytes: int = 1024**3  # of a larger directory only the logs of servers are kept

    def __str__(self) -> str:
        return f"the newest {self.places} of these stay, up to {self.total_bytes / 1024**3:g} GiB"


class Keeper:
    """Hears of servers and of their directories, and keeps those of a test that failed."""

    def __init__(self, root: Path, limits: Limits = Limits()) -> None:  # noqa: B008 - it never changes
        self._root = root
        self._limits = limits
        # Where others write too: of such a directory the logs of servers alone are kept.
        self.common = [Path(tempfile.gettempdir()), _REPOSITORY]
        self._is_testing = False
        self._servers: list[Server] = []
        self._temporary: list[Path] = []
        self._unused: dict[Path, Path] = {}  # temporary directories of this test, and where they wait for its end

    # ---------------------------------------------------------------------------------------- hearing

    def note_server(self, server: Server) -> None:
        if all(server is not known for known in self._servers):
            self._servers.append(server)

    def note_made(self, directory: Path) -> None:
        self._temporary.append(directory)

    def note_unused(self, directory: Path) -> None:
        with contextlib.suppress(ValueError):
            self._temporary.remove(directory)
        if self._is_testing:
            waiting = directory.with_name(f"{directory.name}-unused")
            with contextlib.suppress(OSError):
                directory.rename(waiting)
                self._unused[directory] = waiting

    def begin_test(self) -> None:
        self._is_testing = True

    def end_test(self) -> None:
        self._is_testing = False
        for waiting in self._unused.values():
            shutil.rmtree(waiting, ignore_errors=True)
        self._unused.clear()
        self._servers = [server for server in self._servers if server.is_running]

    # ---------------------------------------------------------------------------------------- showing

    def read_logs(self) -> list[str]:
        """The last lines of each server's log."""
        lines: list[str] = []
        for server in self._servers[:_MOST_LOGS]:
            state = "runs" if server.is_running else "has ended"
            lines.append(f"{server.name} {state}; the last lines of {server.log_path}:")
            lines += [f"    {line}" for line in read_tail(self._locate(server.log_path))] or ["    (nothing)"]
        if len(self._servers) > _MOST_LOGS:
            lines.append(f"and {len(self._servers) - _MOST_LOGS} servers more")
        return lines

    def _locate(self, path: Path) -> Path:
        for before, waiting in self._unused.items():
            if path.is_relative_to(before):
                return waiting / path.relative_to(before)
        return path

    # ---------------------------------------------------------------------------------------- keeping

    def keep(self, name: str, tmp_path: Path | None) -> list[str]:
        """What to say of it; nothing where there is nothing to keep."""
        own = [*([] if tmp_path is None else [tmp_path]), *self._unused.values()]
        shared = [*self._temporary, *(self._locate(server.log_path).parent for server in self._servers)]
        common = [each for each in shared if any(place.is_relative_to(each) for place in self.common)]
        chosen = outermost([each for each in [*own, *shared] if each not in common and _has_files(each)])
        if not chosen and not common:
            return []
        place = self._make_place(name)
        lines = [f"What the test and its servers wrote is kept in {place} ({self._limits})."]
        for directory in dict.fromkeys(common):
            self._copy_logs(directory, place)
        for directory in chosen:
            target = _unused_name(place / directory.name.removesuffix("-unused"))
            if count_bytes(directory) > self._limits.one_bytes:
                lines.append(f"Of {directory} the logs alone are kept: it is too large.")
                target.mkdir()
                self._copy_logs(directory, target)
            elif directory in own:
                move(directory, target)
            else:
                copy(directory, target)
        prune(self._root, self._limits)
        return lines

    def _make_place(self, name: str) -> Path:
        short = _NOT_IN_NAMES.sub("-", name)[:_NAME_CHARACTERS]
        place = _unused_name(self._root / f"{short}-{time.strftime('%Y%m%d-%H%M%S')}")
        place.mkdir(parents=True)
        return place

    def _copy_logs(self, directory: Path, target: Path) -> None:
        for server in self._servers:
            log = self._locate(server.log_path)
            if log.parent == directory:
                with contextlib.suppress(OSError):
                    shutil.copy(log, _unused_name(target / log.name))


def read_tail(path: Path) -> list[str]:
    with contextlib.suppress(OSError), path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        lines = log.read().decode(errors="replace").splitlines()
        return [line[:_LINE_CHARACTERS] for line in lines[-_TAIL_LINES:]]
    return []


def outermost(directories: list[Path]) -> list[Path]:
    """Each once, and none that is inside of another one."""
    once = list(dict.fromkeys(directories))
    return [each for each in once if not any(other in each.parents for other in once)]


def count_bytes(directory: Path) -> int:
    return sum(_size(Path(at) / name) for at, _, names in os.walk(directory) for name in names)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512  # files may have holes
    except OSError:
        return 0


def _has_files(directory: Path) -> bool:
    return any(names for _, _, names in os.walk(directory))


def _unused_name(path: Path) -> Path:
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def move(directory: Path, target: Path) -> None:
    try:
        directory.rename(target)
    except OSError:  # another file system
        copy(directory, target)
        shutil.rmtree(directory, ignore_errors=True)


def copy(directory: Path, target: Path) -> None:
    # Brokers that go on delete files meanwhile. Whatever else cannot be copied is no reason to lose the rest.
    with contextlib.suppress(OSError):
        shutil.copytree(directory, target, symlinks=True)


def _age_ns(place: Path) -> int:
    try:
        return -place.stat().st_mtime_ns
    except OSError:  # another run has removed it
        return 0


def prune(root: Path, limits: Limits) -> None:
    """Removes the oldest ones. The newest stays whatever it takes."""
    total = 0
    for number, place in enumerate(sorted(root.iterdir(), key=_age_ns)):
        total += count_bytes(place)
        if number and (number >= limits.places or total > limits.total_bytes):
            shutil.rmtree(place, ignore_errors=True)


# ---------------------------------------------------------------------------------------- the plugin


class KeepingPlugin:
    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._failed: list[pytest.TestReport] = []
        self._tmp_path: Path | None = None
        self._logs: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        value = yield
        if isinstance(value, pytest.TempPathFactory):
            self._keeper.common.append(value.getbasetemp())
        return value

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._keeper.begin_test()
        try:
            done = yield
            if self._failed:
                lines = [*self._try_to_keep(item.name), *self._logs]
                if lines:  # reports are printed at the end of the run
                    self._failed[0].sections.append((SECTION, "\n".join(lines)))
            return done
        finally:
            self._keeper.end_test()
            self._failed, self._tmp_path, self._logs = [], None, []

    def _try_to_keep(self, name: str) -> list[str]:
        """The disk may be full, and runs side by side keep in one place: neither may end the run."""
        try:
            return self._keeper.keep(name, self._tmp_path)
        except OSError as error:
            return [f"what the test wrote could not be kept: {error}"]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed:
            if not self._failed:
                self._logs = self._keeper.read_logs()
                self._tmp_path = getattr(item, "funcargs", {}).get("tmp_path")
            self._failed.append(report)
        return report


def register(config: pytest.Config) -> None:
    """For `pytest_configure`."""
    root = Path(os.environ.get(PLACE) or _REPOSITORY / ".cache" / "kept")
    keeper = Keeper(root)
    leftovers.watchers.append(keeper)
    config.add_cleanup(lambda: leftovers.watchers.remove(keeper))
    config.pluginmanager.register(KeepingPlugin(keeper), "penstock-keeping")
