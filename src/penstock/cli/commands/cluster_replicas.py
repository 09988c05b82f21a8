"""`penstock cluster verify-replicas`: whether all replicas hold the same records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.errors import CliError
from penstock.cli.options import AsJson, on_cluster
from penstock.cli.progress import progress
from penstock.cli.text import plural

if TYPE_CHECKING:
    from penstock.cli.access.replicas import Verified

app = typer.Typer(rich_markup_mode=None)


@app.command("verify-replicas")
@on_cluster
def verify_replicas(
    cluster: ClusterClient,
    topic: Annotated[list[str] | None, typer.Option("--topic", "-t", help="Only this topic; may be repeated.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read every replica from its own broker, and compare what they hold.

    Compared is what was committed when the partition's turn came. Batches must be the same byte for byte; in compacted
    topics, which each broker cleans when it likes, records that two replicas have both kept must be the same. The exit
    status is 1 where replicas differ, or one could not be read. Works with Apache Kafka as well.
    """
    from penstock.cli.access.replicas import ReplicaReader, find_partitions

    brokers, partitions = find_partitions(cluster, topic or None)
    results: list[Verified] = []
    with (
        ReplicaReader(cluster, brokers) as reader,
        progress("Comparing replicas", len(partitions), enabled=not as_json) as advance,
    ):
        for partition in partitions:
            results.append(reader.verify(partition))
            advance(1)
    rows = [row for result in results for row in _rows(result)]
    batches = sum(result.batches for result in results)
    if as_json:
        output.print_json({"partitions": len(results), "batches": batches, "problems": rows})
    else:
        if rows:
            table = output.Table(("TOPIC", ">PARTITION", ">OFFSET", "PROBLEM"))
            for row in rows:
                table.add(row["topic"], row["partition"], row["offset"], row["problem"])
            output.print_table(table)
        output.note(f"Compared the replicas of {plural(len(results), 'partition')}: {batches:,} batches each.")
    if rows:
        raise CliError(
            f"{plural(len(rows), 'problem')} found",
            "A replica that is reassigned away and back is copied anew from the leader.",
        )


def _rows(result: Verified) -> list[dict[str, Any]]:
    where = {"topic": result.partition.topic, "partition": result.partition.partition}
    return [
        *({**where, "offset": each.offset, "problem": each.text} for each in result.differences),
        *({**where, "offset": None, "problem": text} for text in result.problems),
    ]
