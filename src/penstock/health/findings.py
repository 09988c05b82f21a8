"""The findings about a cluster, with advice: one table, one entry a finding. Pure.

A PROBLEM needs an operator: clients are refused, or one more failure would lose or stop something. A NOTICE is worth
knowing, and the cluster is well with it. Exit codes and colours follow from that alone.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from penstock.admin.state.brokers import FULL_SHARE, BrokerState, DirectoryState
from penstock.admin.state.partitions import PartitionState
from penstock.core.words.sizes import format_size
from penstock.health.condition import Condition

_FILLING_SHARE = 0.85
# The controller gives leadership back by itself beyond this share (leader.imbalance.per.broker.percentage).
_IMBALANCE_SHARE = 0.10
# Days for which a broker's certificate is still valid: enough to get a new one, and just enough to act.
_CERTIFICATE_DAYS = 30
_URGENT_CERTIFICATE_DAYS = 7
_DAY_S = 86_400
# How many partitions or replicas a finding names; the rest is counted.
_NAMED = 3


class Severity(enum.Enum):
    PROBLEM = "problem"
    NOTICE = "notice"


class Finding(NamedTuple):
    name: str
    severity: Severity
    what: str
    advice: str
    command: str


class HealthRule(NamedTuple):
    """`look` yields a sentence for each fault. `{0}` in the command is the word that comes with the sentence."""

    name: str
    severity: Severity
    look: Callable[[Condition], Iterable[tuple[str, str]]]
    advice: str
    command: str


def find(condition: Condition) -> list[Finding]:
    """Problems first, each kind in the order of the table."""
    findings = [
        # A broker's reason may end with a period: the code that shows a finding adds its own.
        Finding(rule.name, rule.severity, what.removesuffix("."), rule.advice, rule.command.format(word))
        for rule in RULES
        for what, word in rule.look(condition)
    ]
    return sorted(findings, key=lambda finding: finding.severity is not Severity.PROBLEM)


def is_healthy(findings: Iterable[Finding]) -> bool:
    return all(finding.severity is not Severity.PROBLEM for finding in findings)


# ---------------------------------------------------------------------------------------- the looks


def _no_controller(condition: Condition) -> Iterable[tuple[str, str]]:
    if condition.observed.controller_id is None:
        yield "no broker is the controller: nothing can be created, and no broker that dies is replaced", ""


def _controller_silent(condition: Condition) -> Iterable[tuple[str, str]]:
    observed = condition.observed
    if observed.controller_silence:
        what = f"broker {observed.controller_id} is named as the controller and does not answer as one"
        yield f"{what}, so nothing can be created: {observed.controller_silence}", str(observed.controller_id)


def _gone(condition: Condition) -> Iterable[tuple[str, str]]:
    for node_id, count in condition.gone.items():
        yield f"broker {node_id} is gone, and {_count(count, 'replica')} with it", str(node_id)


def _silent(condition: Condition) -> Iterable[tuple[str, str]]:
    for broker in condition.observed.brokers.values():
        if broker.silence:
            yield f"broker {broker.node_id} is registered and does not answer: {broker.silence}", str(broker.node_id)


def _has_controller(condition: Condition) -> bool:
    return condition.observed.controller_id is not None and not condition.observed.controller_silence


def _unelected(condition: Condition) -> Iterable[tuple[str, str]]:
    """Whatever brokers are missing as well: without a controller no replica can be elected, alive or not."""
    waiting = [each for each in condition.offline if each.isr]
    if waiting and not _has_controller(condition):
        which = _partitions(waiting, "has", "have")
        yield f"{which} no leader, and nobody can be elected until there is a controller", ""


def _offline_by_full_disk(condition: Condition) -> Iterable[tuple[str, str]]:
    """Each partition once. Other causes are findings of their own: nothing can be written before there is room."""
    left = list(condition.offline) if _has_controller(condition) else []
    for node_id, broker in condition.observed.brokers.items():
        stopped = [each for each in left if broker.has_full_disk and node_id in each.isr]
        if stopped:
            left = [each for each in left if node_id not in each.isr]
            which = _partitions(stopped, "has", "have")
            yield f"{which} no leader, and a disk of broker {node_id}, which has all of it, is full", str(node_id)


def _offline_here(condition: Condition) -> Iterable[tuple[str, str]]:
    """The brokers of all last in-sync replicas are here: they have taken the replicas out of service."""
    for node_id, stopped in _by_first_in_sync(condition, is_here=True).items():
        which = _partitions(stopped, "has", "have")
        yield f"{which} no leader, though broker {node_id}, which has all of it, is here", str(node_id)


def _offline(condition: Condition) -> Iterable[tuple[str, str]]:
    waiting = [each for stopped in _by_first_in_sync(condition, is_here=False).values() for each in stopped]
    if waiting:
        yield f"{_partitions(waiting, 'has', 'have')} no leader: nobody reads or writes there", ""


def _by_first_in_sync(condition: Condition, *, is_here: bool) -> dict[int, list[PartitionState]]:
    """Partitions without a leader, where neither a missing controller nor a full disk explains that."""
    brokers = condition.observed.brokers
    found: dict[int, list[PartitionState]] = {}
    for each in condition.offline if _has_controller(condition) else ():
        here = [node_id for node_id in each.isr if node_id in brokers and not brokers[node_id].silence]
        explained = any(brokers[node_id].has_full_disk for node_id in here)
        if each.isr and not explained and (len(here) == len(each.isr)) is is_here:
            found.setdefault(each.isr[0], []).append(each)
    return found


def _undecided(condition: Condition) -> Iterable[tuple[str, str]]:
    """A partition keeps its last in-sync replica, whatever brokers are gone, unless a restore has yet to find that
    replica or its broker came back with an empty disk.
    """
    undecided = [each for each in condition.offline if not each.isr]
    if undecided:
        which = _partitions(undecided, "has", "have")
        why = "a restore is not finished, or the disk of the last one is lost"
        yield f"{which} neither a leader nor an in-sync replica: {why}", ""


def _below_minimum(condition: Condition) -> Iterable[tuple[str, str]]:
    if condition.below_minimum:
        which = _partitions(condition.below_minimum, "has", "have")
        yield f"{which} fewer in-sync replicas than min.insync.replicas: acks=all is refused", ""


def _under_replicated(condition: Condition) -> Iterable[tuple[str, str]]:
    if condition.under_replicated:
        known = [lag.behind for lag in condition.lags if lag.behind is not None]
        far = f", at most {max(known):,} records behind" if known else ""
        yield f"{_partitions(condition.under_replicated, 'lacks', 'lack')} in-sync replicas{far}", ""


def _offline_directories(condition: Condition) -> Iterable[tuple[str, str]]:
    for broker in condition.observed.brokers.values():
        for directory in broker.directories:
            if directory.error:
                yield f"directory {directory.path} of broker {broker.node_id} is offline", str(broker.node_id)


def _disks(condition: Condition, above: float, up_to: float) -> Iterable[tuple[str, str]]:
    for broker in condition.observed.brokers.values():
        for directory in broker.directories:
            share = directory.full_share
            if share is not None and above < share <= up_to:
                yield _describe_disk(broker, directory, share), str(broker.node_id)


def _describe_disk(broker: BrokerState, directory: DirectoryState, share: float) -> str:
    """The disk, how full it is, and the topics that take the room."""
    free, total = format_size(directory.usable_bytes or 0), format_size(directory.total_bytes or 0)
    # A disk that is 94.9 % full must not be shown as one that is 95 % full.
    what = (
        f"the disk of {directory.path} on broker {broker.node_id} is {int(share * 100)} % full, {free} of {total} free"
    )
    taken = ", ".join(f"{topic} ({format_size(size)})" for topic, size in directory.largest if size)
    return f"{what}; most room there is taken by {taken}" if taken else f"{what}; topics take no room there"


def _full_disks(condition: Condition) -> Iterable[tuple[str, str]]:
    return _disks(condition, FULL_SHARE, 1.0)


def _filling_disks(condition: Condition) -> Iterable[tuple[str, str]]:
    return _disks(condition, _FILLING_SHARE, FULL_SHARE)


def _certificates(condition: Condition, at_least: float, below: float) -> Iterable[tuple[str, str]]:
    for broker in condition.observed.brokers.values():
        if broker.certificate_left_s is not None and at_least <= broker.certificate_left_s / _DAY_S < below:
            days = int(broker.certificate_left_s // _DAY_S)
            end = "has ended" if broker.certificate_left_s < 0 else f"ends in {_count(days, 'day')}"
            yield f"the certificate of broker {broker.node_id} {end}", str(max(days, 0) + 1)


def _urgent_certificates(condition: Condition) -> Iterable[tuple[str, str]]:
    return _certificates(condition, -math.inf, _URGENT_CERTIFICATE_DAYS)


def _ending_certificates(condition: Condition) -> Iterable[tuple[str, str]]:
    return _certificates(condition, _URGENT_CERTIFICATE_DAYS, _CERTIFICATE_DAYS)


def _standing_moves(condition: Condition) -> Iterable[tuple[str, str]]:
    """Moves that lack bytes and got none between two looks."""
    standing = [move for move in condition.moves if move.left_bytes and move.bytes_per_s == 0]
    if standing and len(standing) == sum(bool(move.left_bytes) for move in condition.moves):
        yield f"{_count(len(standing), 'move')} under way, and nothing was copied since the last look", ""


def _imbalance(condition: Condition) -> Iterable[tuple[str, str]]:
    lacking = []
    for node_id, count in sorted(condition.preferred.items()):
        missing = sum(each.preferred_leader == node_id for each in condition.misled)
        if missing > count * _IMBALANCE_SHARE:
            lacking.append(f"broker {node_id} leads {count - missing} of the {count} partitions that it should lead")
    if lacking:
        yield "; ".join(lacking), ""


def _different_features(condition: Condition) -> Iterable[tuple[str, str]]:
    levels: dict[str, dict[tuple[int, int], list[int]]] = {}
    for broker in condition.observed.brokers.values():
        for feature in broker.features:
            ranges = levels.setdefault(feature.name, {})
            ranges.setdefault((feature.lowest, feature.highest), []).append(broker.node_id)
    for name, ranges in sorted(levels.items()):
        if len(ranges) > 1:
            told = "; ".join(
                f"{low} to {high} on {_brokers(node_ids)}" for (low, high), node_ids in sorted(ranges.items())
            )
            yield f"the brokers run different versions: they know {name} {told}", ""


def _levels_to_raise(condition: Condition) -> Iterable[tuple[str, str]]:
    """Only where all brokers know the higher level, and only of features of ours: Kafka's tools raise Kafka's."""
    known: dict[str, list[int]] = {}
    in_force: dict[str, int] = {}
    for broker in condition.observed.brokers.values():
        for feature in broker.features:
            if feature.name.startswith("penstock."):
                known.setdefault(feature.name, []).append(feature.highest)
                if feature.finalized is not None:
                    in_force[feature.name] = feature.finalized
    for name, level in sorted(in_force.items()):
        if min(known[name]) > level:
            yield f"{name} is at level {level}, and all brokers know {min(known[name])}", ""


def _unread(condition: Condition) -> Iterable[tuple[str, str]]:
    for failure in condition.observed.unread_configs:
        yield f"not everything could be read: {failure}", ""


# Causes before what follows from them: a broker that is gone explains the partitions that lack it.
RULES: Sequence[HealthRule] = (
    HealthRule(
        "no-controller", Severity.PROBLEM, _no_controller,
        "The brokers elect one as soon as they reach ZooKeeper: see that it runs, and what their logs say.",
        "echo srvr | nc ZOOKEEPER 2181",
    ),
    HealthRule(
        "controller-silent", Severity.PROBLEM, _controller_silent,
        "See what the brokers' logs say of ZooKeeper and of the metadata, and restart the broker if its process hangs.",
        "penstock cluster api-versions --broker {0}",
    ),
    HealthRule(
        "broker-gone", Severity.PROBLEM, _gone,
        "Start it; if its machine is lost, start an empty broker with the same broker.id, which fetches everything.",
        "penstock broker start --config FILE    # with broker.id={0}",
    ),
    HealthRule(
        "broker-silent", Severity.PROBLEM, _silent,
        "See whether its process hangs or its address cannot be reached from here, and restart it.",
        "penstock cluster api-versions --broker {0}",
    ),
    HealthRule(
        "directory-offline", Severity.PROBLEM, _offline_directories,
        "Mend or replace the disk, then restart the broker: it fetches what it lacks.",
        "penstock cluster log-dirs --broker {0}",
    ),
    HealthRule(
        "unelected-partitions", Severity.PROBLEM, _unelected,
        "Bring back ZooKeeper, or the controller, first: in-sync replicas that are alive lead then, without a command.",
        "penstock topics describe --unavailable --internal",
    ),
    HealthRule(
        "disk-full", Severity.PROBLEM, _full_disks,
        "Make room now: shorten retention of the largest topics, delete what nobody needs, or make the disk larger.",
        "penstock cluster log-dirs --broker {0} --partitions",
    ),
    HealthRule(
        "offline-by-full-disk", Severity.PROBLEM, _offline_by_full_disk,
        "Make room there, then restart the broker: all records are there again. Elect no other replica: that loses "
        "records.",
        "penstock cluster log-dirs --broker {0} --partitions",
    ),
    HealthRule(
        "offline-here", Severity.PROBLEM, _offline_here,
        "Wait, if it has just started; else see in its log why it does not serve them (a disk error, damage), mend "
        "that and restart it. Elect no other replica: that loses records.",
        "penstock cluster log-dirs --broker {0}",
    ),
    HealthRule(
        "offline-partitions", Severity.PROBLEM, _offline,
        "Start the brokers that hold the last in-sync replicas. Only if those are lost for good, elect another "
        "replica: that loses records.",
        "penstock topics describe --unavailable --internal",
    ),
    HealthRule(
        "undecided-partitions", Severity.PROBLEM, _undecided,
        "Repeat the restore with its snapshot: it goes on. If the disk is lost for good, elect any replica.",
        "penstock cluster restore FILE --zookeeper ZOOKEEPER",
    ),
    HealthRule(
        "below-minimum", Severity.PROBLEM, _below_minimum,
        "Bring back the brokers or disks that hold the other replicas.",
        "penstock topics describe --under-min-isr --internal",
    ),
    HealthRule(
        "under-replicated", Severity.PROBLEM, _under_replicated,
        "Wait, if a broker has just come back; else look at the brokers of the missing replicas.",
        "penstock topics describe --under-replicated --internal",
    ),
    HealthRule(
        "certificate-urgent", Severity.PROBLEM, _urgent_certificates,
        "Renew it now: from its end on nobody connects. The broker picks a new file up by itself.",
        "penstock certificates renew --within {0}",
    ),
    HealthRule(
        "disk-filling", Severity.NOTICE, _filling_disks,
        "Make room before it is full: shorten retention, move replicas away or add a disk.",
        "penstock cluster log-dirs --broker {0} --partitions",
    ),
    HealthRule(
        "certificate-ending", Severity.NOTICE, _ending_certificates,
        "Renew it in time. The broker picks a new file up by itself.",
        "penstock certificates renew --within {0}",
    ),
    HealthRule(
        "moves-stand-still", Severity.NOTICE, _standing_moves,
        "See whether a throttle is too low or a broker of the move is gone.",
        "penstock reassign status",
    ),
    HealthRule(
        "leaders-unbalanced", Severity.NOTICE, _imbalance,
        "The controller balances within five minutes, unless auto.leader.rebalance.enable is off.",
        "penstock leaders elect --all",
    ),
    HealthRule(
        "versions-differ", Severity.NOTICE, _different_features,
        "Update the other brokers as well; until then the level stays where it is.",
        "penstock cluster describe",
    ),
    HealthRule(
        "level-can-rise", Severity.NOTICE, _levels_to_raise,
        "Raise it when no broker is to go back to the version before.",
        "penstock cluster upgrade",
    ),
    HealthRule(
        "unread", Severity.NOTICE, _unread,
        "Another broker may answer, or your principal may not be allowed to ask.",
        "penstock cluster api-versions",
    ),
)  # fmt: skip


def _partitions(partitions: Sequence[PartitionState], one: str, several: str) -> str:
    named = ", ".join(map(str, partitions[:_NAMED])) + (", ..." if len(partitions) > _NAMED else "")
    return f"{_count(len(partitions), 'partition')} ({named}) {one if len(partitions) == 1 else several}"


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _brokers(node_ids: Sequence[int]) -> str:
    return f"broker{'s' if len(node_ids) > 1 else ''} {', '.join(map(str, node_ids))}"
