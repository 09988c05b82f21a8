"""`penstock transactions`: which producers have one open, since when, and how to end one that hangs."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from penstock.admin.queries.transactions import transactions_request
from penstock.admin.state.transactions import OpenTransaction, TransactionState
from penstock.cli import output
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.transactions import (
    abort_transaction,
    describe_transaction,
    find_leader,
    list_transactions,
    open_transactions,
)
from penstock.cli.completion import complete_topic
from penstock.cli.errors import CliError, UsageError
from penstock.cli.options import AsJson, Yes, confirm, on_cluster
from penstock.cli.times import format_time, parse_duration_ms
from penstock.core.types import TopicPartition

app = typer.Typer(help="Look at transactions, and abort one that hangs.", no_args_is_help=True, rich_markup_mode=None)

_OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")


@app.command("list")
@on_cluster
def list_all(
    cluster: ClusterClient,
    state: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="Only in this state, e.g. Ongoing.")
    ] = None,
    producer_id: Annotated[
        list[int] | None, typer.Option("--producer-id", metavar="ID", help="Only of this producer.")
    ] = None,
    longer_than: Annotated[
        str | None, typer.Option("--longer-than", metavar="DURATION", help="Only open for longer, e.g. 10m.")
    ] = None,
    pattern: Annotated[
        str | None, typer.Option("--pattern", metavar="REGEX", help="Only transactional ids that match.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List transactional ids and the state of their transactions."""
    request = transactions_request(
        states=[name for text in state or () for name in text.split(",")],
        producer_ids=producer_id or (),
        open_for_ms=None if longer_than is None else parse_duration_ms(longer_than),
        pattern=pattern,
    )
    rows = [
        (each.transactional_id, each.coordinator, each.producer_id, each.state)
        for each in list_transactions(cluster, request)
    ]
    if as_json:
        keys = ("transactional_id", "coordinator", "producer_id", "state")
        output.print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    table = output.Table(("TRANSACTIONAL ID", ">COORDINATOR", ">PRODUCER ID", "STATE"))
    for row in rows:
        table.add(*row)
    output.print_table(table, "There are no such transactions.")


@app.command()
@on_cluster
def describe(
    cluster: ClusterClient,
    transactional_ids: Annotated[list[str], typer.Argument(metavar="TRANSACTIONAL_ID", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Show a transaction: its producer, since when it is open, and which partitions take part."""
    documents = [_document(*describe_transaction(cluster, name)) for name in transactional_ids]
    if as_json:
        output.print_json(documents)
        return
    for index, document in enumerate(documents):
        if index:
            output.say("")
        output.print_fields(_fields(document))


def _document(coordinator: str, described: TransactionState) -> dict[str, Any]:
    started_ms = described.started_ms
    open_for_ms = None
    if started_ms is not None and described.state in _OPEN_STATES:
        open_for_ms = max(0, time.time_ns() // 1_000_000 - started_ms)
    return {
        "transactional_id": described.transactional_id,
        "coordinator": coordinator,
        "state": described.state,
        "producer_id": described.producer_id,
        "producer_epoch": described.producer_epoch,
        "timeout_ms": described.timeout_ms,
        "started_ms": started_ms,
        "open_for_ms": open_for_ms,
        "partitions": [str(place) for place in described.partitions],
    }


def _fields(document: dict[str, Any]) -> list[tuple[str, object]]:
    started_ms, open_for_ms = document["started_ms"], document["open_for_ms"]
    return [
        ("Transactional id", document["transactional_id"]),
        ("State", document["state"]),
        ("Producer", f"{document['producer_id']} (epoch {document['producer_epoch']})"),
        ("Coordinator", document["coordinator"]),
        ("Timeout", f"{document['timeout_ms']} ms"),
        ("Started", None if started_ms is None else format_time(started_ms)),
        ("Open for", None if open_for_ms is None else f"{open_for_ms} ms"),
        ("Partitions", ", ".join(document["partitions"]) or None),
    ]


@app.command()
@on_cluster
def abort(
    cluster: ClusterClient,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic, show_default=False)],
    partition: Annotated[int, typer.Argument(metavar="PARTITION", show_default=False)],
    start_offset: Annotated[
        int | None,
        typer.Option("--start-offset", metavar="OFFSET", help="Where it begins; needed if several are open."),
    ] = None,
    yes: Yes = False,
) -> None:
    """Abort the open transaction of a partition that no coordinator will end.

    For a transaction that hangs: it holds back every reader of committed records, and its producer and coordinator know
    nothing of it. One that is merely slow ends by its own timeout; aborting it here loses its records.
    """
    topic_partition = TopicPartition(topic, partition)
    leader = find_leader(cluster, topic_partition)
    producer = _choose(topic_partition, open_transactions(cluster, leader, topic_partition), start_offset)
    confirm(
        f"Abort the transaction of producer {producer.producer_id} that begins at offset "
        f"{producer.start_offset} of {topic_partition}?",
        yes,
    )
    abort_transaction(cluster, leader, topic_partition, producer)
    output.note(f"Aborted the transaction that began at offset {producer.start_offset} of {topic_partition}.")


def _choose(
    topic_partition: TopicPartition, producers: list[OpenTransaction], start_offset: int | None
) -> OpenTransaction:
    chosen = [producer for producer in producers if start_offset in (None, producer.start_offset)]
    if not chosen:
        raise CliError(f"no transaction is open in {topic_partition}" + ("" if start_offset is None else " from there"))
    if len(chosen) > 1:
        offsets = ", ".join(str(producer.start_offset) for producer in chosen)
        raise UsageError(
            f"{len(chosen)} transactions are open in {topic_partition}", f"Choose with --start-offset: {offsets}."
        )
    return chosen[0]
