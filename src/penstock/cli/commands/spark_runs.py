"""What `penstock pipeline` and `penstock streams` share: options, settings from files, and a run that is watched."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.errors import CliError, UsageError
from penstock.cli.options import BOOTSTRAP_VARIABLE, read_client_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

    from penstock.pipelines import Pipeline
    from penstock.pipelines.pipeline import Settings
    from penstock.pipelines.running.runner import Run

# Properties of a client's file that are about the schema registry.
_OF_REGISTRY = ("schema.registry.", "basic.auth.", "bearer.auth.")
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting, kafka.*, registry.*, spark.*, or a parameter."),
]
ClientFile = Annotated[
    Path | None,
    typer.Option(
        "--command-config", metavar="FILE", help="Property file with client settings, as Kafka's tools take it."
    ),
]
Master = Annotated[str | None, typer.Option(metavar="URL", help="local[*], spark://HOST:PORT, yarn, k8s://...")]
Once = Annotated[bool, typer.Option("--once", help="Process what is there now, then stop.")]


def given_settings(assignments: list[str] | None, client_file: Path | None) -> dict[str, str]:
    """--set beats the file."""
    client = {} if client_file is None else read_client_properties(client_file)
    servers = client.pop("bootstrap.servers", None)
    given = {_setting_of(key): value for key, value in client.items()}
    if any(key.startswith("registry.") for key in given):  # which may inherit the login
        given |= {f"registry.{key}": value for key, value in client.items() if key.startswith("sasl.")}
    if servers is not None:
        given["bootstrap_servers"] = servers
    for text in assignments or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set takes KEY=VALUE, not {text!r}")
        given[key.strip()] = value
    return given


def with_known_servers(settings: Settings) -> Settings:
    """The brokers that other commands ask, where neither the file nor the command line names any."""
    from penstock.pipelines.pipeline import DEFAULT_SETTINGS

    known = os.environ.get(BOOTSTRAP_VARIABLE)
    is_told = settings.bootstrap_servers != DEFAULT_SETTINGS.bootstrap_servers
    return settings if is_told or not known else replace(settings, bootstrap_servers=known)


def _setting_of(key: str) -> str:
    """Of a property that Kafka's tools and serializers take from the same file."""
    if key.startswith(_OF_REGISTRY):
        return f"registry.{key.removeprefix('schema.registry.')}"
    return f"kafka.{key}"


@contextmanager
def pipeline_errors() -> Iterator[None]:
    from penstock.pipelines.errors import PipelineError

    try:
        yield
    except PipelineError as error:
        raise CliError(error.message, error.hint) from error


def require_spark() -> None:
    """Before a pipeline is loaded: what its module lacks is of no interest to a user who has no Spark at all."""
    from penstock.pipelines.errors import INSTALL_SPARK

    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise CliError("pipelines need PySpark, which is not installed", INSTALL_SPARK) from error


def run_watched(pipeline: Pipeline, master: str | None, open_run: Callable[[SparkSession], Run]) -> None:
    """In a session of its own, shown on the terminal, until the run ends or is interrupted."""
    from rich.console import Console

    from penstock.pipelines.progress.waiting import waiting
    from penstock.pipelines.running.session import open_session

    console = Console()
    with pipeline_errors():
        with waiting(console, "starting Spark", "Spark is up"):
            spark = open_session(pipeline, master)
        try:
            _watch(console, open_run(spark))
        finally:
            spark.stop()


def _watch(console: Console, run: Run) -> None:
    from penstock.pipelines.progress.metrics import serve
    from penstock.pipelines.progress.view import ProgressView
    from penstock.pipelines.progress.waiting import waiting
    from penstock.pipelines.running.signals import stopped_by_signals

    name = run.pipeline.name
    with stopped_by_signals(run.stop):
        with waiting(console, "opening", f"pipeline {name} is open", doing=lambda: run.opening):
            run.start()
        port = run.pipeline.settings.metrics_port
        if port >= 0:
            console.print(f"metrics on http://127.0.0.1:{serve(name, run.progress, port)}/metrics")
        with ProgressView(console, name) as view:
            run.wait(every=lambda current: view.show(current.progress(), current.state))
            view.show(run.progress(), run.state, is_last=True)
