"""`penstock leaders`: elect the leaders of partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import ClusterClient, fetch_metadata, raise_failures
from penstock.cli.access.moves import elect_leaders
from penstock.cli.completion import complete_topic
from penstock.cli.errors import CliError, UsageError
from penstock.cli.options import AsJson, Yes, confirm, on_cluster, read_text
from penstock.cli.plans.assignments import parse_partition_list
from penstock.cli.plans.offset_reset import parse_topic_selection, select_partitions
from penstock.cli.text import plural
from penstock.core.types import TopicPartition

app = typer.Typer(help="Elect the leaders of partitions.", no_args_is_help=True, rich_markup_mode=None)

_NOT_NEEDED = "ELECTION_NOT_NEEDED"


@app.callback()
def leaders() -> None:
    """Elect the leaders of partitions."""


@dataclass(frozen=True, slots=True)
class Scope:
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC[:P,...]", autocompletion=complete_topic, help="Of this topic."),
    ] = None
    file: Annotated[
        str | None, typer.Option("--file", "-f", metavar="FILE", help="Of these, as kafka-leader-election reads them.")
    ] = None
    everything: Annotated[bool, typer.Option("--all", help="Of all partitions.")] = False

    def keys(self, cluster: ClusterClient) -> list[TopicPartition] | None:
        """None: all of them."""
        if sum((bool(self.topic), self.file is not None, self.everything)) != 1:
            raise UsageError("say whose leaders", "One of --topic, --file and --all.")
        if self.everything:
            return None
        if self.file is not None:
            return parse_partition_list(read_text(self.file))
        selections = [parse_topic_selection(text) for text in self.topic or ()]
        topics = fetch_metadata(cluster.admin()).topics
        for selection in selections:
            if selection.topic not in topics:
                raise CliError(f"there is no topic {selection.topic}", "`penstock topics list` shows what exists.")
        return select_partitions(selections, {name: topic.partitions for name, topic in topics.items()})


@app.command()
@on_cluster
def elect(
    cluster: ClusterClient,
    scope: Scope,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean/--preferred",
            help="Let a replica lead that misses records, where none that is in sync is there; or the first replica.",
        ),
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Let the first replica of each partition lead it, or any replica that is there.

    Fails when a partition did not get the leader that was asked for; the others have theirs all the same. A partition
    that has that leader already is no failure.
    """
    keys = scope.keys(cluster)
    if unclean:
        confirm("Records that the new leaders do not have are lost for good. Go on?", yes)
    outcomes = elect_leaders(cluster, keys, unclean=unclean) if keys is None or keys else {}
    failures = {key: error for key, error in outcomes.items() if error is not None and error.name != _NOT_NEEDED}
    if as_json:
        output.print_json([_document(key, error) for key, error in outcomes.items()])
    elected = [key for key, error in outcomes.items() if error is None]
    output.note(f"{plural(len(elected), 'partition')} got another leader.")
    if failures:
        raise_failures(failures.values())


def _document(key: TopicPartition, error: CliError | None) -> dict[str, object]:
    result = "elected" if error is None else "not_needed" if error.name == _NOT_NEEDED else "failed"
    return {
        "topic": key.topic,
        "partition": key.partition,
        "result": result,
        "error": error.name if error is not None and result == "failed" else None,
    }
