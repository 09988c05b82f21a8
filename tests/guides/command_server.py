"""Runs the commands of a guide without the start of a Python for each of them, which costs ten times what most
commands do.

`forks SOCKET` runs each command in a fork of this process, which has imported what commands need and has no threads.
`stays SOCKET` runs commands in this process: they share one Spark session's JVM. `stays` also runs the guide's Python:
`cell FILE` is one block, as a cell of a notebook, with names that later blocks see and `await` at the top.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import gc
import importlib
import inspect
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from penstock.cli.app import COMMANDS
from penstock.cli.main import main

ON_SPARK = ("pipeline", "streams", "sql")


def serve(path: str, answer: Callable[[socket.socket], None]) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path + ".new")
        server.listen()
        os.rename(path + ".new", path)
        while True:
            connection, _ = server.accept()
            with connection:
                answer(connection)


def answer_in_a_fork(connection: socket.socket) -> None:
    if os.fork():
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    answer_here(connection)
    os._exit(0)


def reap(*_: object) -> None:
    """A fork has answered its client itself."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def answer_here(connection: socket.socket) -> None:
    code = run(take_request(connection))
    sys.stdout.flush()
    sys.stderr.flush()
    connection.sendall(bytes([code]))


def take_request(connection: socket.socket) -> Sequence[str]:
    """The arguments. Directory, environment and streams of the client are this process's from now on."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    received = b"".join(iter(lambda: connection.recv(65536), b""))
    directory, count, *rest = received.decode("utf-8", "surrogateescape").split("\0")
    os.chdir(directory)
    os.environ.clear()
    os.environ.update({name: value for name, _, value in (item.partition("=") for item in rest[int(count) :])})
    return rest[: int(count)]


def run(arguments: Sequence[str]) -> int:
    try:
        if arguments[0] == "cell":
            return run_cell(Path(arguments[1]))
        return int(main(arguments))
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001  # whatever a block raises is its failure
        traceback.print_exc()
        return 1


cells: dict[str, Any] = {"__name__": "cells"}
runner = asyncio.Runner()


def run_cell(path: Path) -> int:
    code = compile(path.read_text(), path.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        runner.run(eval(code, cells))
    else:
        exec(code, cells)
    return 0


def import_commands() -> None:
    for name, command in COMMANDS.items():
        if name not in ON_SPARK:
            importlib.import_module(command.target.partition(":")[0])
    importlib.import_module("confluent_kafka.admin")


if __name__ == "__main__":
    if sys.argv[1] == "forks":
        import_commands()
        gc.freeze()  # a fork that collects would copy all of it
        signal.signal(signal.SIGCHLD, reap)
        serve(sys.argv[2], answer_in_a_fork)
    sys.path.insert(0, "")
    serve(sys.argv[2], answer_here)
