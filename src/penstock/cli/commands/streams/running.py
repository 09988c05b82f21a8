"""`penstock streams run`, `describe` and `reset`: of an application that is given as code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import output
from penstock.cli.commands.spark_runs import (
    Assignments,
    ClientFile,
    Master,
    Once,
    given_settings,
    pipeline_errors,
    require_spark,
    run_watched,
    with_known_servers,
)
from penstock.cli.options import Yes, confirm

if TYPE_CHECKING:
    from penstock.streams import Streams

Reference = Annotated[
    str, typer.Argument(metavar="MODULE[:NAME]", help="A module or .py file, and the application in it.")
]


def run(
    reference: Reference,
    master: Master = None,
    assignments: Assignments = None,
    command_config: ClientFile = None,
    once: Once = False,
) -> None:
    """Run an application until it is interrupted (Ctrl-C, SIGTERM) or, with --once, until it has caught up."""
    require_spark()
    app = _load(reference, assignments, command_config)
    from penstock.streams.running.application import open_run, pipeline_for

    with pipeline_errors():
        pipeline = pipeline_for(app)
    run_watched(pipeline, master, lambda spark: open_run(spark, app, once=once))


def describe(reference: Reference, assignments: Assignments = None, command_config: ClientFile = None) -> None:
    """Draw an application: its queries, and the topics between them with the reason for each."""
    app = _load(reference, assignments, command_config)
    from penstock.pipelines.running.runner import checkpoint_of, groups_of
    from penstock.streams.running.application import pipeline_for

    with pipeline_errors():
        drawn, pipeline = app.describe(), pipeline_for(app)
    output.say(drawn)
    output.say("")
    output.print_fields(
        [
            ("bootstrap servers", pipeline.settings.bootstrap_servers),
            ("consumer groups", ", ".join(groups_of(pipeline).values())),
            ("checkpoint", checkpoint_of(pipeline)),
            ("trigger", pipeline.settings.trigger),
        ]
    )


def reset(
    reference: Reference, assignments: Assignments = None, command_config: ClientFile = None, yes: Yes = False
) -> None:
    """Start over: delete an application's checkpoint, consumer groups and internal topics. Its sinks' topics stay."""
    app = _load(reference, assignments, command_config)
    from penstock.pipelines.running.runner import checkpoint_of, groups_of
    from penstock.streams.running.application import pipeline_for
    from penstock.streams.running.reset import forget_application
    from penstock.streams.running.topics import internal_topics

    with pipeline_errors():
        pipeline, topics = pipeline_for(app), internal_topics(app.plan())
        own = f", the topics {', '.join(topics)}" if topics else ""
        confirm(
            f"Delete the checkpoint {checkpoint_of(pipeline)}{own} and the consumer groups "
            f"{', '.join(groups_of(pipeline).values())}? Stop every run before. "
            "The next run starts from the beginning and writes everything again.",
            yes,
        )
        for line in forget_application(app):
            output.say(line)


def _load(reference: str, assignments: list[str] | None, client_file: Path | None) -> Streams:
    from penstock.pipelines.running.loading import load_defined
    from penstock.pipelines.running.settings import apply_settings
    from penstock.streams import Streams

    given = given_settings(assignments, client_file)
    with pipeline_errors():
        app, settings = load_defined(reference, given, Streams, "application")
        app.settings = with_known_servers(apply_settings(app.settings, settings))
    return app
