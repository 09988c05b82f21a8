"""`penstock topics`: create, look at, change and delete topics."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import (
    REQUEST_TIMEOUT_SECONDS,
    ClusterClient,
    fetch_metadata,
    list_partitions,
    raise_failures,
    wait_each,
)
from penstock.cli.access.offsets import Place, find_offsets, find_range, parse_partition_offsets, parse_place
from penstock.cli.access.topics import read_topics
from penstock.cli.completion import complete_topic
from penstock.cli.errors import CliError, UsageError
from penstock.cli.options import AsJson, Yes, confirm, on_cluster
from penstock.cli.text import parse_settings, plural
from penstock.cli.times import TIME_FORMS, format_time
from penstock.cli.views.topics import (
    Troubles,
    partition_table,
    select_partitions,
    topic_document,
    topic_fields,
    topic_list_table,
)
from penstock.core.internal_topics import INTERNAL_TOPICS
from penstock.core.types import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

app = typer.Typer(help="Create, describe, alter and delete topics.", no_args_is_help=True, rich_markup_mode=None)

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic, show_default=False)]


@app.command()
@on_cluster
def create(
    cluster: ClusterClient,
    names: Annotated[list[str], typer.Argument(metavar="TOPIC", show_default=False)],
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="Default: the broker's num.partitions.")
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", "-r", min=1, help="Default: the broker's.")
    ] = None,
    config: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A topic setting.")] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Accept a topic that exists.")] = False,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Check, but create nothing.")] = False,
) -> None:
    """Create topics."""
    from penstock.cli.access.admin_types import NewTopic

    new_topics = [
        NewTopic(name, partitions or -1, replication_factor or -1, config=parse_settings(config)) for name in names
    ]
    futures = cluster.admin().create_topics(
        new_topics, validate_only=validate_only, request_timeout=REQUEST_TIMEOUT_SECONDS
    )
    done = "Would create" if validate_only else "Created"
    accepted = {"TOPIC_ALREADY_EXISTS": "exists already"} if if_not_exists else {}
    _tell(wait_each(futures), done, accepted)


def _tell(answers: tuple[dict[str, None], dict[str, CliError]], done: str, accepted: dict[str, str]) -> None:
    """One line for each topic; an error whose name is in `accepted` is only worth mentioning."""
    results, failures = answers
    for name in results:
        output.note(f"{done} topic {name}.")
    for name, failure in failures.items():
        if failure.name in accepted:
            output.note(f"Topic {name} {accepted[failure.name]}.")
    raise_failures(failure for failure in failures.values() if failure.name not in accepted)


@app.command("list")
@on_cluster
def list_topics(
    cluster: ClusterClient,
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Names only.")] = False,
    as_json: AsJson = False,
) -> None:
    """List topics."""
    metadata = fetch_metadata(cluster.admin())
    topics = [
        (name, len(topic.partitions), max((len(p.replicas) for p in topic.partitions.values()), default=0))
        for name, topic in sorted(metadata.topics.items())
        if internal or name not in INTERNAL_TOPICS
    ]
    if as_json:
        output.print_json(
            [{"name": name, "partitions": count, "replication_factor": factor} for name, count, factor in topics]
        )
    elif quiet:
        for name, _, _ in topics:
            output.say(name)
    else:
        output.print_table(topic_list_table(topics), "There are no topics. Create one: penstock topics create NAME")


@dataclass(frozen=True, slots=True)
class TroubleOptions:
    """What kafka-topics looks for, also under its longer names."""

    under_replicated: Annotated[
        bool,
        typer.Option(
            "--under-replicated", "--under-replicated-partitions", help="Only partitions that lack in-sync replicas."
        ),
    ] = False
    under_min_isr: Annotated[
        bool,
        typer.Option(
            "--under-min-isr",
            "--under-min-isr-partitions",
            help="Only partitions with fewer in-sync replicas than min.insync.replicas.",
        ),
    ] = False
    at_min_isr: Annotated[
        bool,
        typer.Option(
            "--at-min-isr", "--at-min-isr-partitions", help="Only partitions that can spare no in-sync replica."
        ),
    ] = False
    unavailable: Annotated[
        bool, typer.Option("--unavailable", "--unavailable-partitions", help="Only partitions without a leader.")
    ] = False
    with_overrides: Annotated[
        bool,
        typer.Option("--with-overrides", "--topics-with-overrides", help="Only topics with settings of their own."),
    ] = False

    @property
    def troubles(self) -> Troubles:
        return Troubles(self.under_replicated, self.under_min_isr, self.at_min_isr, self.unavailable)


@app.command()
@on_cluster
def describe(
    cluster: ClusterClient,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", autocompletion=complete_topic, help="Default: all.")
    ] = None,
    *,
    filters: TroubleOptions,
    internal: Annotated[
        bool | None,
        typer.Option(
            "--internal/--exclude-internal",
            help="With internal topics or without.  [default: only when partitions in trouble are looked for]",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show partitions, leaders, replicas and changed settings.

    Several filters find partitions in any of these states; `--with-overrides` goes with none of them.
    """
    troubles = filters.troubles
    if filters.with_overrides and any(troubles):
        raise UsageError("--with-overrides is about topics, the other filters are about partitions", "Ask twice.")
    admin = cluster.admin()
    with_internal = any(troubles) if internal is None else internal
    wanted = names or [
        name for name in sorted(fetch_metadata(admin).topics) if with_internal or name not in INTERNAL_TOPICS
    ]
    topics = select_partitions(read_topics(cluster, admin, wanted), troubles)
    if filters.with_overrides:
        topics = [topic for topic in topics if topic.configs]
    if as_json:
        output.print_json([topic_document(topic) for topic in topics])
        return
    for index, topic in enumerate(topics):
        if index:
            output.say("")
        output.print_fields(topic_fields(topic))
        if not filters.with_overrides:
            output.say("")
            output.print_table(partition_table(topic))
    if not topics:
        nothing = "No topic has settings of its own." if filters.with_overrides else "No partition is in trouble."
        output.note(nothing if wanted else "There are no topics.")


@app.command()
@on_cluster
def alter(
    cluster: ClusterClient,
    name: TopicName,
    partitions: Annotated[int, typer.Option("--partitions", "-p", min=1, help="The new total.")],
) -> None:
    """Give a topic more partitions. (Settings: penstock configs alter --topic NAME.)"""
    from penstock.cli.access.admin_types import NewPartitions

    futures = cluster.admin().create_partitions(
        [NewPartitions(name, partitions)], request_timeout=REQUEST_TIMEOUT_SECONDS
    )
    _, failures = wait_each(futures)
    raise_failures(failures.values())
    output.note(f"Topic {name} has {plural(partitions, 'partition')} now. Keys may land elsewhere than before.")


@app.command()
@on_cluster
def delete(
    cluster: ClusterClient,
    names: Annotated[list[str], typer.Argument(metavar="TOPIC", autocompletion=complete_topic, show_default=False)],
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Accept a topic that is not there.")] = False,
    yes: Yes = False,
) -> None:
    """Delete topics and all their records."""
    confirm(f"Delete {', '.join(names)} with all records?", yes)
    futures = cluster.admin().delete_topics(names, request_timeout=REQUEST_TIMEOUT_SECONDS)
    _tell(wait_each(futures), "Deleted", {"UNKNOWN_TOPIC_OR_PART": "does not exist"} if if_exists else {})


@app.command("delete-records")
@on_cluster
def delete_records(
    cluster: ClusterClient,
    name: TopicName,
    offsets: Annotated[
        list[str] | None,
        typer.Option(metavar="P:OFFSET", help="Delete what is before this offset of partition P; `end` is all of it."),
    ] = None,
    before: Annotated[str | None, typer.Option(metavar="TIME", help=f"Delete what is older: {TIME_FORMS}.")] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete the oldest records of a topic."""
    from confluent_kafka import TopicPartition as ClientPartition

    if (offsets is None) == (before is None):
        raise UsageError("say what to delete", "Give either --offsets P:OFFSET or --before TIME.")
    admin = cluster.admin()
    places = (
        parse_partition_offsets(offsets) if offsets else _offsets_at(admin, name, parse_place(before or "", _now_ms()))
    )
    confirm(f"Delete records of {name} in {plural(len(places), 'partition')}?", yes)
    requests = [ClientPartition(name, partition, offset) for partition, offset in sorted(places.items())]
    futures = admin.delete_records(requests, request_timeout=REQUEST_TIMEOUT_SECONDS)
    results, failures = wait_each({f"{key.topic}-{key.partition}": future for key, future in futures.items()})
    starts = [(int(key.rpartition("-")[2]), result.low_watermark) for key, result in results.items()]
    if as_json:
        output.print_json([{"partition": partition, "low_watermark": start} for partition, start in sorted(starts)])
    else:
        table = output.Table((">PARTITION", ">STARTS AT"))
        for partition, start in sorted(starts):
            table.add(partition, start)
        output.print_table(table)
    raise_failures(failures.values())


def _offsets_at(admin: AdminClient, topic: str, place: Place) -> dict[int, int]:
    """The offset of each partition at a place. A time behind the last record is the end of the partition."""
    partitions = [TopicPartition(topic, partition) for partition in list_partitions(admin, topic)]
    offsets_by_partition = find_offsets(admin, dict.fromkeys(partitions, place))
    return {key.partition: result.offset for key, result in offsets_by_partition.items()}


@app.command()
@on_cluster
def offsets(
    cluster: ClusterClient,
    name: TopicName,
    at: Annotated[
        str | None,
        typer.Option("--time", metavar="PLACE", help=f"earliest, latest, max-timestamp, or a time: {TIME_FORMS}."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the offsets of a topic: its range, or where a time is."""
    admin = cluster.admin()
    place = parse_place(at, _now_ms()) if at is not None else None
    partitions = [TopicPartition(name, partition) for partition in list_partitions(admin, name)]
    documents: list[dict[str, Any]]
    if place is None:
        ranges = find_range(admin, partitions)
        table = output.Table((">PARTITION", ">EARLIEST", ">LATEST", ">RECORDS"))
        documents = [
            {"partition": key.partition, "earliest": span.start, "latest": span.stop} for key, span in ranges.items()
        ]
        for key, span in ranges.items():
            table.add(key.partition, span.start, span.stop, len(span))
    else:
        offsets_by_partition = find_offsets(admin, dict.fromkeys(partitions, place))
        table = output.Table((">PARTITION", ">OFFSET", "TIMESTAMP"))
        documents = [
            {"partition": key.partition, "offset": result.offset, "timestamp": result.timestamp}
            for key, result in offsets_by_partition.items()
        ]
        for key, result in offsets_by_partition.items():
            table.add(key.partition, result.offset if result.offset >= 0 else None, format_time(result.timestamp))
    if as_json:
        output.print_json(documents)
    else:
        output.print_table(table)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
