"""`penstock pipeline`: run, list, draw and reset pipelines written in Python, and ask things of those that run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import Cluster
from penstock.cli.commands.pipeline_runs import app as runs_app
from penstock.cli.commands.pipeline_runs import list_runs
from penstock.cli.errors import CliError, UsageError
from penstock.cli.options import AsJson, Yes, confirm, on_cluster, read_client_properties
from penstock.runs.topics import RUNS_TOPIC

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.pipelines import Pipeline
    from penstock.pipelines.running.runner import Run

app = typer.Typer(help="Run data pipelines on Spark.", no_args_is_help=True, rich_markup_mode=None)

# Properties of a client's file that are about the schema registry.
_OF_REGISTRY = ("schema.registry.", "basic.auth.", "bearer.auth.")
Reference = Annotated[
    str, typer.Argument(metavar="MODULE[:NAME]", help="A module or .py file, and the pipeline in it.")
]
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


@app.command()
def run(
    reference: Reference,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="local[*], spark://HOST:PORT, yarn, k8s://...")
    ] = None,
    assignments: Assignments = None,
    command_config: ClientFile = None,
    once: Annotated[bool, typer.Option("--once", help="Process what is there now, then stop.")] = False,
) -> None:
    """Run a pipeline until it is interrupted (Ctrl-C, SIGTERM) or, with --once, until it has caught up."""
    _require_spark()
    pipeline = _load(reference, assignments, command_config)
    from rich.console import Console

    from penstock.pipelines.progress.waiting import waiting
    from penstock.pipelines.running.runner import Run
    from penstock.pipelines.running.session import open_session

    console = Console()
    with _pipeline_errors():
        with waiting(console, "starting Spark", "Spark is up"):
            spark = open_session(pipeline, master)
        try:
            _watch(console, Run(spark, pipeline, once=once))
        finally:
            spark.stop()


@app.command("list")
@on_cluster
def list_all(
    cluster: Cluster,
    module: Annotated[
        str | None, typer.Argument(metavar="MODULE", help="A module or .py file.", show_default=False)
    ] = None,
    running: Annotated[bool, typer.Option("--running", help="The runs on a cluster that have not ended.")] = False,
    every: Annotated[bool, typer.Option("--all", help="The runs on a cluster, those that have ended too.")] = False,
    runs_topic: Annotated[str, typer.Option(metavar="TOPIC", help="Where runs publish their state.")] = RUNS_TOPIC,
    as_json: AsJson = False,
) -> None:
    """List the pipelines of a module, or, with --running, the runs of pipelines on a cluster."""
    if running or every:
        if module is not None:
            raise UsageError("a module and --running are two questions", "Ask one of them.")
        list_runs(cluster, runs_topic, every, as_json)
    elif module is None:
        raise UsageError("say which module, or --running", "penstock pipeline list MODULE|--running|--all")
    else:
        _list_module(module, as_json)


def _list_module(module: str, as_json: bool) -> None:
    from penstock.pipelines import Pipeline
    from penstock.pipelines.running.loading import find_pipelines, import_module

    with _pipeline_errors():
        pipelines = find_pipelines(import_module(module))
    rows: list[tuple[str, list[str] | None, list[str] | None]] = [
        (name, [source.name for source in target.sources], [sink.name for sink in target.sinks])
        if isinstance(target, Pipeline)
        else (name, None, None)
        for name, target in pipelines.items()
    ]
    if as_json:
        output.print_json([{"name": name, "sources": sources, "sinks": sinks} for name, sources, sinks in rows])
        return
    table = output.Table(("NAME", "SOURCES", "SINKS"))
    for name, sources, sinks in rows:
        table.add(name, ", ".join(sources) if sources else None, ", ".join(sinks) if sinks else None)
    output.print_table(table, f"{module} has no pipelines.")


@app.command()
def describe(reference: Reference, assignments: Assignments = None, command_config: ClientFile = None) -> None:
    """Draw a pipeline: its sources, steps and sinks."""
    from penstock.pipelines.running.drawing import draw
    from penstock.pipelines.running.runner import checkpoint_of, groups_of

    pipeline = _load(reference, assignments, command_config)
    with _pipeline_errors():
        groups = groups_of(pipeline)
    output.say(draw(pipeline))
    output.say("")
    settings = pipeline.settings
    output.print_fields(
        [
            ("bootstrap servers", settings.bootstrap_servers),
            ("consumer groups", ", ".join(groups.values())),
            ("checkpoint", checkpoint_of(pipeline)),
            ("trigger", settings.trigger),
        ]
    )


@app.command()
def reset(
    reference: Reference, assignments: Assignments = None, command_config: ClientFile = None, yes: Yes = False
) -> None:
    """Forget how far a pipeline has come: its checkpoint and its consumer group. What it wrote stays."""
    from penstock.pipelines.running.reset import forget_progress
    from penstock.pipelines.running.runner import checkpoint_of, groups_of

    pipeline = _load(reference, assignments, command_config)
    with _pipeline_errors():
        groups = ", ".join(groups_of(pipeline).values())
        confirm(
            f"Delete the checkpoint {checkpoint_of(pipeline)} and the consumer groups {groups}? "
            "The next run starts from the beginning and writes everything again.",
            yes,
        )
        for line in forget_progress(pipeline):
            output.say(line)


app.registered_commands.extend(runs_app.registered_commands)


def _load(reference: str, assignments: list[str] | None, client_file: Path | None) -> Pipeline:
    """--set beats the file."""
    from penstock.pipelines.running.loading import load_pipeline

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
    with _pipeline_errors():
        return load_pipeline(reference, given)


def _setting_of(key: str) -> str:
    """Of a property that Kafka's tools and serializers take from the same file."""
    if key.startswith(_OF_REGISTRY):
        return f"registry.{key.removeprefix('schema.registry.')}"
    return f"kafka.{key}"


@contextmanager
def _pipeline_errors() -> Iterator[None]:
    from penstock.pipelines.errors import PipelineError

    try:
        yield
    except PipelineError as error:
        raise CliError(error.message, error.hint) from error


def _require_spark() -> None:
    """Before a pipeline is loaded: what its module lacks is of no interest to a user who has no Spark at all."""
    from penstock.pipelines.errors import INSTALL_SPARK

    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise CliError("pipelines need PySpark, which is not installed", INSTALL_SPARK) from error


def _watch(console: Console, run: Run) -> None:
    from penstock.pipelines.progress.metrics import serve
    from penstock.pipelines.progress.view import ProgressView
    from penstock.pipelines.progress.waiting import waiting

    # After the session is there, since Spark puts a handler of its own in place, and before the queries start.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: run.stop())
    with waiting(console, "opening", f"pipeline {run.pipeline.name} is open", doing=lambda: run.opening):
        run.start()
    port = run.pipeline.settings.metrics_port
    if port >= 0:
        console.print(f"metrics on http://127.0.0.1:{serve(run.pipeline.name, run.progress, port)}/metrics")
    with ProgressView(console, run.pipeline.name) as view:
        run.wait(every=lambda current: view.show(current.progress(), current.state))
        view.show(run.progress(), run.state, is_last=True)
