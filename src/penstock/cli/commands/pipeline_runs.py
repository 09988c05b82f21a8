"""`penstock pipeline pause`, `resume`, `stop`, `restart` and `list --running`: of runs anywhere. No Spark here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.options import on_cluster
from penstock.runs.topics import COMMANDS_TOPIC, RUNS_TOPIC

app = typer.Typer()

PIPELINE = "pipeline"
DEFAULT_WAIT_S = 60.0

NameOrRun = Annotated[
    str, typer.Argument(metavar="NAME_OR_RUN", help="A pipeline's name, or a run's id.", show_default=False)
]


@dataclass(frozen=True, slots=True)
class AskOptions:
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.0, help="How long the run's answer is waited for.")
    ] = DEFAULT_WAIT_S
    runs_topic: Annotated[str, typer.Option(metavar="TOPIC", help="Where runs publish their state.")] = RUNS_TOPIC
    commands_topic: Annotated[str, typer.Option(metavar="TOPIC", help="Where runs take commands from.")] = (
        COMMANDS_TOPIC
    )


@app.command()
@on_cluster
def pause(cluster: ClusterClient, name_or_run: NameOrRun, options: AskOptions) -> None:
    """Let a run finish its batch and begin no further one. It keeps its process, its queries and its heartbeat."""
    _ask(cluster, name_or_run, "pause", options)


@app.command()
@on_cluster
def resume(cluster: ClusterClient, name_or_run: NameOrRun, options: AskOptions) -> None:
    """Let a paused run go on."""
    _ask(cluster, name_or_run, "resume", options)


@app.command()
@on_cluster
def stop(cluster: ClusterClient, name_or_run: NameOrRun, options: AskOptions) -> None:
    """Let a run finish its batch and end, as Ctrl-C does. The next run goes on from there."""
    _ask(cluster, name_or_run, "stop", options)


@app.command()
@on_cluster
def restart(cluster: ClusterClient, name_or_run: NameOrRun, options: AskOptions) -> None:
    """Let a run finish its batch, close its sinks, and start its queries anew in the same process."""
    _ask(cluster, name_or_run, "restart", options)


def list_runs(cluster: ClusterClient, topic: str, with_ended: bool, as_json: bool) -> None:
    from penstock.cli.access.runs import brokers_time, read_runs
    from penstock.cli.views.runs import choose_listed, ignored_note, run_document, run_table

    with read_runs(cluster, topic) as reader:
        now_ms = brokers_time(reader)
        runs = choose_listed(reader.overview, PIPELINE, with_ended)
        if as_json:
            output.print_json([run_document(run, now_ms) for run in runs])
        else:
            output.print_table(run_table(runs, now_ms), "There are no runs." if with_ended else "No pipeline runs.")
        if reader.overview.ignored:
            output.note(ignored_note(topic, reader.overview.ignored))


def _ask(cluster: ClusterClient, name_or_run: str, verb: str, options: AskOptions) -> None:
    from penstock.cli.access.runs import ask_run, brokers_time, read_runs
    from penstock.cli.views.runs import answer_text, choose_run
    from penstock.runs.records import Verb
    from penstock.runs.topics import RunTopics

    topics = RunTopics(options.runs_topic, options.commands_topic)
    with read_runs(cluster, topics.runs) as reader:
        run = choose_run(reader.overview, PIPELINE, name_or_run, brokers_time(reader))
        if options.wait == 0:
            ask_run(cluster, reader, topics, run, Verb(verb), 0)
            output.say(f"{run.record.run}: asked to {verb}")
            return
        answer = ask_run(cluster, reader, topics, run, Verb(verb), options.wait)
        output.say(answer_text(Verb(verb), answer, options.wait))
