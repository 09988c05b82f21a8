"""`penstock pipeline`: run, list, draw and reset pipelines written in Python, and ask things of those that run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.commands.pipeline_runs import app as runs_app
from penstock.cli.commands.pipeline_runs import list_runs
from penstock.cli.commands.spark_runs import (
    Assignments,
    BootstrapServer,
    ClientFile,
    Master,
    Once,
    check_brokers,
    given_settings,
    pipeline_errors,
    run_interruptibly,
    watch_run,
    with_known_servers,
)
from penstock.cli.errors import UsageError
from penstock.cli.options import AsJson, Yes, confirm, on_cluster
from penstock.core.extras import require
from penstock.runs.topics import RUNS_TOPIC

if TYPE_CHECKING:
    from penstock.pipelines import Pipeline

app = typer.Typer(help="Run data pipelines on Spark.", no_args_is_help=True, rich_markup_mode=None)

Reference = Annotated[
    str, typer.Argument(metavar="MODULE[:NAME]", help="A module or .py file, and the pipeline in it.")
]


@app.command()
def run(
    reference: Reference,
    master: Master = None,
    assignments: Assignments = None,
    bootstrap_server: BootstrapServer = None,
    command_config: ClientFile = None,
    once: Once = False,
) -> None:
    """Run a pipeline until it is interrupted (Ctrl-C, SIGTERM) or, with --once, until it has caught up."""
    # Before the module is loaded: what it lacks is of no interest to a user who has no Spark at all.
    require("spark", "penstock pipeline run")
    pipeline = _load(reference, assignments, bootstrap_server, command_config)
    from penstock.pipelines.preflight.pipeline import asks_brokers, check_pipeline
    from penstock.pipelines.runtime.runner import Run

    if asks_brokers(pipeline):
        check_brokers(pipeline.settings)
    with pipeline_errors():
        check_pipeline(pipeline, master, once=once)
    run_interruptibly(lambda course: watch_run(course, pipeline, master, lambda spark: Run(spark, pipeline, once=once)))


@app.command("list")
@on_cluster
def list_all(
    cluster: ClusterClient,
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
    from penstock.pipelines.runtime.pipeline_loader import find_pipelines, import_module

    with pipeline_errors():
        pipelines = find_pipelines(import_module(module))
    rows: list[tuple[str, list[str] | None, list[str] | None]] = [
        (name, _sources_of(target), [sink.name for sink in target.sinks])
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


def _sources_of(pipeline: Pipeline) -> list[str]:
    from penstock.pipelines.runtime.query_plan import branches_of

    own = [source.name for branch in branches_of(pipeline) for source in branch.sources]
    return list(dict.fromkeys([*(source.name for source in pipeline.sources), *own]))


@app.command()
def describe(
    reference: Reference,
    assignments: Assignments = None,
    bootstrap_server: BootstrapServer = None,
    command_config: ClientFile = None,
) -> None:
    """Draw a pipeline: its sources, steps and sinks."""
    from penstock.pipelines.runtime.diagram import draw
    from penstock.pipelines.runtime.runner import checkpoint_of, groups_of

    pipeline = _load(reference, assignments, bootstrap_server, command_config)
    with pipeline_errors():
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
    reference: Reference,
    assignments: Assignments = None,
    bootstrap_server: BootstrapServer = None,
    command_config: ClientFile = None,
    yes: Yes = False,
) -> None:
    """Forget how far a pipeline has come: its checkpoint and its consumer group. What it wrote stays."""
    from penstock.pipelines.runtime.reset import forget_progress
    from penstock.pipelines.runtime.runner import checkpoint_of, groups_of

    pipeline = _load(reference, assignments, bootstrap_server, command_config)
    with pipeline_errors():
        groups = ", ".join(groups_of(pipeline).values())
        confirm(
            f"Delete the checkpoint {checkpoint_of(pipeline)} and the consumer groups {groups}? "
            "The next run starts from the beginning and writes everything again.",
            yes,
        )
        for line in forget_progress(pipeline):
            output.say(line)


app.registered_commands.extend(runs_app.registered_commands)


def _load(
    reference: str, assignments: list[str] | None, bootstrap_server: str | None, client_file: Path | None
) -> Pipeline:
    from penstock.pipelines.runtime.pipeline_loader import load_pipeline

    given = given_settings(assignments, client_file, bootstrap_server)
    with pipeline_errors():
        pipeline = load_pipeline(reference, given)
    return replace(pipeline, settings=with_known_servers(pipeline.settings))
