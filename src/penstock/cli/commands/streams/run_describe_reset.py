"""`penstock streams run`, `describe` and `reset`: of an application that is given as code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import output
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
from penstock.cli.options import Yes, confirm
from penstock.core.extras import require

if TYPE_CHECKING:
    from penstock.pipelines.runtime.spark.signals import Course
    from penstock.streams import Streams

Reference = Annotated[
    str, typer.Argument(metavar="MODULE[:NAME]", help="A module or .py file, and the application in it.")
]


def run(
    reference: Reference,
    master: Master = None,
    assignments: Assignments = None,
    bootstrap_server: BootstrapServer = None,
    command_config: ClientFile = None,
    once: Once = False,
) -> None:
    """Run an application until it is interrupted (Ctrl-C, SIGTERM) or, with --once, until it has caught up."""
    # Before the module is loaded: what it lacks is of no interest to a user who has no Spark at all.
    require("streams", "penstock streams run")
    app = _load(reference, assignments, bootstrap_server, command_config)
    from penstock.streams.runtime.application import open_run, pipeline_for, sole_driver
    from penstock.streams.runtime.checks import check_application

    with pipeline_errors():
        pipeline = pipeline_for(app)
    check_brokers(pipeline.settings)

    def work(course: Course) -> None:
        with sole_driver(app) as lease:  # first: what another driver has made looks like leftovers of an earlier run
            check_application(app, master, once=once)
            watch_run(course, pipeline, master, lambda spark: open_run(spark, app, once=once, lease=lease))

    run_interruptibly(work)


def describe(
    reference: Reference,
    assignments: Assignments = None,
    bootstrap_server: BootstrapServer = None,
    command_config: ClientFile = None,
) -> None:
    """Draw an application: its queries, and the topics between them with the reason for each."""
    app = _load(reference, assignments, bootstrap_server, command_config)
    from penstock.pipelines.runtime.runner import checkpoint_of, groups_of
    from penstock.streams.runtime.application import pipeline_for

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
    reference: Reference,
    assignments: Assignments = None,
    bootstrap_server: BootstrapServer = None,
    command_config: ClientFile = None,
    yes: Yes = False,
) -> None:
    """Start over: delete an application's checkpoint, consumer groups and internal topics. Its sinks' topics stay."""
    app = _load(reference, assignments, bootstrap_server, command_config)
    from penstock.pipelines.runtime.runner import checkpoint_of, groups_of
    from penstock.streams.runtime.application import pipeline_for
    from penstock.streams.runtime.reset import forget_application
    from penstock.streams.runtime.topics import internal_topics

    with pipeline_errors():
        pipeline, topics = pipeline_for(app), internal_topics(app.plan())
        own = f", the topics {', '.join(topics)}" if topics else ""
        confirm(
            f"Delete the checkpoint {checkpoint_of(pipeline)}{own} and the consumer groups "
            f"{', '.join(groups_of(pipeline).values())}? "
            "The next run starts from the beginning and writes everything again.",
            yes,
        )
        for line in forget_application(app):
            output.say(line)


def _load(
    reference: str, assignments: list[str] | None, bootstrap_server: str | None, client_file: Path | None
) -> Streams:
    from penstock.pipelines.runtime.pipeline_loader import load_defined
    from penstock.pipelines.runtime.settings import apply_settings
    from penstock.streams import Streams

    given = given_settings(assignments, client_file, bootstrap_server)
    with pipeline_errors():
        app, settings = load_defined(reference, given, Streams, "application")
        app.settings = with_known_servers(apply_settings(app.settings, settings))
    return app
