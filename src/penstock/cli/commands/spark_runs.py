"""What `penstock pipeline` and `penstock streams` share: options, settings from files, and a run that is watched."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import output
from penstock.cli.access.client_properties import translate_client_properties
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.errors import CliError, ExitCode
from penstock.cli.options import BOOTSTRAP_VARIABLE, brokers_option, read_client_properties
from penstock.cli.text import parse_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

    from penstock.pipelines import Pipeline
    from penstock.pipelines.pipeline import Settings
    from penstock.pipelines.runtime.runner import Run
    from penstock.pipelines.runtime.spark.signals import Course

# Properties of a client's file that are about the schema registry.
_OWN = ("kafka.", "registry.", "spark.")
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
BootstrapServer = Annotated[
    str | None, brokers_option(f"Brokers to begin with; beats the code and the file.  [default: ${BOOTSTRAP_VARIABLE}]")
]
Master = Annotated[str | None, typer.Option(metavar="URL", help="local[*], spark://HOST:PORT, yarn, k8s://...")]
Once = Annotated[bool, typer.Option("--once", help="Process what is there now, then stop.")]


def given_settings(
    assignments: list[str] | None, client_file: Path | None, bootstrap_server: str | None = None
) -> dict[str, str]:
    """--set beats --bootstrap-server, which beats the file."""
    output.warn_of_secrets(assignments, "Write it into a file, and give that with --command-config.")
    client = {} if client_file is None else read_client_properties(client_file)
    servers = client.pop("bootstrap.servers", None)
    given = {_setting_of(key): value for key, value in client.items()}
    if any(key.startswith("registry.") for key in given):  # which may inherit the login
        given |= {f"registry.{key}": value for key, value in client.items() if key.startswith("sasl.")}
    if (named := bootstrap_server or servers) is not None:
        given["bootstrap_servers"] = named
    return given | parse_settings(assignments)


def with_known_servers(settings: Settings) -> Settings:
    """The brokers that other commands ask, where neither the file nor the command line names any."""
    from penstock.pipelines.pipeline import DEFAULT_SETTINGS

    known = os.environ.get(BOOTSTRAP_VARIABLE)
    is_told = settings.bootstrap_servers != DEFAULT_SETTINGS.bootstrap_servers
    return settings if is_told or not known else replace(settings, bootstrap_servers=known)


def _setting_of(key: str) -> str:
    """Of a property that Kafka's tools and serializers take from the same file, or of one that is a setting by its own
    name: a secret of `--set` may go there as it is."""
    if key.startswith(_OWN):
        return key
    if key.startswith(_OF_REGISTRY):
        return f"registry.{key.removeprefix('schema.registry.')}"
    return f"kafka.{key}"


@contextmanager
def pipeline_errors() -> Iterator[None]:
    """One sentence each; what Spark has said of it is in a file that is named."""
    from penstock.pipelines.errors import PipelineError, RefusedLoginError

    try:
        yield
    except PipelineError as error:
        from penstock.pipelines.spark_log import hint_of

        code = ExitCode.UNREACHABLE if isinstance(error, RefusedLoginError) else ExitCode.FAILURE
        raise CliError(error.message, hint_of(error), code) from error
    except Exception as error:
        from penstock.pipelines.spark_log import hint_of, told_of

        told = told_of(error)
        if told is None:
            raise
        told.__cause__ = error
        raise CliError(told.message, hint_of(told)) from error


def check_brokers(settings: Settings) -> None:
    """Before anything else: whether brokers answer."""
    if settings.engine == "python" or not settings.kafka:  # Java reads stores and logins that we cannot
        ClusterClient(settings.bootstrap_servers, translate_client_properties(settings.kafka)).check_reachable()


def run_interruptibly(work: Callable[[Course], None]) -> None:
    """Until the work ends or is interrupted. What it has entered is left then, also where Spark is still starting."""
    from penstock.pipelines.runtime.spark.signals import run_until_signalled

    with pipeline_errors():
        run_until_signalled(work)


def watch_run(course: Course, pipeline: Pipeline, master: str | None, open_run: Callable[[SparkSession], Run]) -> None:
    """In a session of its own, shown on the terminal."""
    from rich.console import Console

    from penstock.pipelines.progress.metrics import check_port
    from penstock.pipelines.progress.wait_messages import waiting
    from penstock.pipelines.runtime.spark.session import open_session, stop_session

    check_port(pipeline.settings.metrics_port)
    console = Console()
    with waiting(console, "starting Spark", "Spark is up"):
        spark = open_session(pipeline, master)
    course.doing = "before the first batch"
    try:
        _watch(course, console, open_run(spark))
    finally:
        stop_session(spark)


def _watch(course: Course, console: Console, run: Run) -> None:
    from penstock.pipelines.progress.metrics import serve
    from penstock.pipelines.progress.view import ProgressView
    from penstock.pipelines.progress.wait_messages import waiting

    name, port = run.pipeline.name, run.pipeline.settings.metrics_port
    with course.finished_by(run.stop, has_begun=lambda: run.queries):
        with waiting(console, "opening", f"pipeline {name} is open", doing=lambda: run.opening):
            run.start()
        if port >= 0:
            console.print(f"metrics on http://127.0.0.1:{serve(name, run.progress, port)}/metrics")
        with ProgressView(console, name) as view:
            run.wait(every=lambda current: view.show(current.progress(), current.state))
            view.show(run.progress(), run.state, is_last=True)
