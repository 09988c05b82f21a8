"""How `cluster status` shows a cluster: one screen for people, one document for programs. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.admin.state.brokers import BrokerState, DirectoryState
from penstock.admin.state.partitions import PartitionState
from penstock.cli.output import Table
from penstock.cli.text import format_duration, format_size, plural
from penstock.health.condition import Condition, Lag, Move
from penstock.health.findings import Finding, Severity, is_healthy

# Rows of a list on the screen; `--json` has all.
_ROWS = 10
_BROKER_COLUMNS = (
    *(">ID", "ADDRESS", "RACK", "STATE", "CONTROLLER"),
    *(">LEADS", ">REPLICAS", ">LAGGING", ">DATA", ">DISK", ">FREE"),
)


class StatusView(NamedTuple):
    condition: Condition
    findings: Sequence[Finding]


def head(view: StatusView) -> list[tuple[str, object]]:
    condition, observed = view.condition, view.condition.observed
    counts = (
        f"{len(observed.partitions):,} in {plural(len(observed.topics), 'topic')}: {len(condition.offline)} offline, "
        f"{len(condition.below_minimum)} below minimum, {len(condition.under_replicated)} under-replicated"
    )
    fields: list[tuple[str, object]] = [
        ("Cluster", observed.cluster_id),
        ("State", verdict(view.findings)),
        ("Controller", "nobody" if observed.controller_id is None else observed.controller_id),
        ("Partitions", counts),
    ]
    if condition.moves:
        left = format_left(condition.left_s)
        fields.append(("Moves", f"{len(condition.moves)}, {format_size(condition.left_bytes)} to copy{left}"))
    return fields


def verdict(findings: Sequence[Finding]) -> str:
    problems = sum(finding.severity is Severity.PROBLEM for finding in findings)
    notices = len(findings) - problems
    told = [plural(count, noun) for count, noun in ((problems, "problem"), (notices, "notice")) if count]
    return "healthy" if not told else ", ".join(told) if problems else f"healthy, {told[0]}"


def status_brokers(view: StatusView) -> Table:
    condition = view.condition
    observed = condition.observed
    lagging: dict[int, int] = {}
    for lag in condition.lags:
        lagging[lag.node_id] = lagging.get(lag.node_id, 0) + 1
    table = Table(_BROKER_COLUMNS)
    for node_id in sorted(observed.brokers.keys() | condition.gone.keys()):
        broker = observed.brokers.get(node_id)
        used, free = (None, None) if broker is None else _disk(broker)
        stored = None if broker is None else broker.stored_bytes
        table.add(
            node_id,
            None if broker is None else f"{broker.host}:{broker.port}",
            None if broker is None else broker.rack,
            "gone" if broker is None else _state(broker),
            "yes" if node_id == observed.controller_id else "",
            f"{condition.led.get(node_id, 0)}/{condition.preferred.get(node_id, 0)}",
            condition.hosted.get(node_id, 0),
            lagging.get(node_id, 0),
            None if stored is None else format_size(stored),
            used,
            free,
        )
    return table


def _state(broker: BrokerState) -> str:
    if broker.silence:
        return "silent"
    return "disk offline" if any(each.error for each in broker.directories) else "running"


def _disk(broker: BrokerState) -> tuple[str | None, str | None]:
    """How full the fullest one of its disks is, and what is free there."""
    shares = [
        (each.full_share, each.usable_bytes)
        for each in broker.directories
        if each.full_share is not None and each.usable_bytes is not None
    ]
    if not shares:
        return None, None
    share, usable = max(shares)
    return f"{int(share * 100)} %", format_size(usable)


def lags_of_the_present(condition: Condition) -> list[Lag]:
    """Those of a broker that is gone are all that it has, and nobody knows how far they are."""
    return [lag for lag in condition.lags if lag.node_id in condition.observed.brokers]


def lag_table(lags: Sequence[Lag]) -> Table:
    """Those that are farthest behind first; of those that nobody knows about the last."""
    table = Table(("LAGGING REPLICA", ">BROKER", ">LEADER", ">RECORDS BEHIND"))
    for lag in _farthest(lags)[:_ROWS]:
        table.add(lag.partition, lag.node_id, _leader(lag.partition), lag.behind)
    return table


def _farthest(lags: Sequence[Lag]) -> list[Lag]:
    return sorted(lags, key=lambda lag: -1 if lag.behind is None else lag.behind, reverse=True)


def _leader(partition: PartitionState) -> int | None:
    return partition.leader if partition.leader >= 0 else None


def move_table(moves: Sequence[Move]) -> Table:
    table = Table(("MOVE", ">FROM", ">TO", ">COPIED", ">OF", ">PER SECOND", ">LEFT"))
    for move in sorted(moves, key=lambda move: move.left_bytes, reverse=True)[:_ROWS]:
        table.add(
            move.partition, move.source, "other disk" if move.target == move.source else move.target,
            format_size(move.copied_bytes), format_size(move.total_bytes),
            None if move.bytes_per_s is None else format_size(move.bytes_per_s),
            None if move.left_s is None else format_duration(move.left_s),
        )  # fmt: skip
    return table


def hidden_rows(count: int) -> str:
    return f"and {count - _ROWS:,} more" if count > _ROWS else ""


def format_left(seconds: float | None) -> str:
    return "" if seconds is None else f", {format_duration(seconds)} left"


def finding_lines(findings: Sequence[Finding]) -> list[list[str]]:
    """A paragraph for each kind of finding: what is wrong, once for each place, then what to do."""
    paragraphs: list[list[str]] = []
    for _, same in itertools.groupby(findings, lambda finding: finding.name):
        alike = list(same)
        mark = "!" if alike[0].severity is Severity.PROBLEM else "-"
        shown = [f"{mark} {_capital(finding.what)}." for finding in alike[:_ROWS]]
        hidden = hidden_rows(len(alike))
        paragraphs.append(
            [*shown, *([f"  {hidden}"] if hidden else []), f"  {alike[0].advice}", f"  $ {alike[0].command}"]
        )
    return paragraphs


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# ---------------------------------------------------------------------------------------- for programs


def status_document(view: StatusView) -> dict[str, Any]:
    condition, observed = view.condition, view.condition.observed
    return {
        "cluster_id": observed.cluster_id,
        "healthy": is_healthy(view.findings),
        "controller": observed.controller_id,
        "topics": len(observed.topics),
        "partitions": len(observed.partitions),
        "brokers": [_broker_document(condition, broker) for broker in sorted(observed.brokers.values())],
        "gone_brokers": [{"id": node_id, "replicas": count} for node_id, count in condition.gone.items()],
        "offline": [_partition_document(each) for each in condition.offline],
        "below_minimum": [_partition_document(each) for each in condition.below_minimum],
        "under_replicated": [_partition_document(each) for each in condition.under_replicated],
        "lagging": [
            {
                "topic": lag.partition.topic,
                "partition": lag.partition.partition,
                "broker": lag.node_id,
                "records_behind": lag.behind,
            }
            for lag in condition.lags
        ],
        "moves": [
            {
                "topic": move.partition.topic,
                "partition": move.partition.partition,
                "from": move.source,
                "to": move.target,
                "copied_bytes": move.copied_bytes,
                "total_bytes": move.total_bytes,
                "bytes_per_second": move.bytes_per_s,
                "seconds_left": move.left_s,
            }
            for move in condition.moves
        ],
        "findings": [{**finding._asdict(), "severity": finding.severity.value} for finding in view.findings],
    }


def _partition_document(partition: PartitionState) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "leader": _leader(partition),
        "replicas": partition.replicas,
        "isr": partition.isr,
    }


def _broker_document(condition: Condition, broker: BrokerState) -> dict[str, Any]:
    return {
        "id": broker.node_id,
        "host": broker.host,
        "port": broker.port,
        "rack": broker.rack,
        "silence": broker.silence or None,
        "leads": condition.led.get(broker.node_id, 0),
        "should_lead": condition.preferred.get(broker.node_id, 0),
        "replicas": condition.hosted.get(broker.node_id, 0),
        "stored_bytes": broker.stored_bytes,
        "directories": [_directory_document(each) for each in broker.directories],
        "features": [each._asdict() for each in broker.features],
        "certificate_seconds_left": broker.certificate_left_s,
    }


def _directory_document(directory: DirectoryState) -> dict[str, Any]:
    largest = [{"topic": topic, "bytes": size} for topic, size in directory.largest]
    return {**directory._asdict(), "error": directory.error or None, "largest": largest}
