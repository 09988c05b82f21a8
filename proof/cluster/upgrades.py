"""A cluster of the build before becomes one of this build under load, broker by broker, and its level is raised.

The fault needs a cluster of its own that nobody has raised yet, so it cannot take turns with the others in theirs. Some
of the times the operator goes back once with all brokers that are updated by then: until the level rises, that is
promised.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from penstock.protocol.errors import ApiError
from proof.cluster.administration import Administration
from proof.cluster.builds import LEVEL_AFTER, make_build_after, run_by, unpack_build_before
from proof.cluster.fault_context import DEADLINE_S, Fault, FaultContext
from proof.cluster.members import Broker

WHY_SKIPPED = "the build before is not in the history of this tree: a whole clone has it"

_KILL_CHANCE = 0.25
_GO_BACK_CHANCE = 0.5


class Builds(NamedTuple):
    before: Path
    after: Path


def make_builds(directory: Path) -> Builds | None:
    """None where the build before cannot be had."""
    before = unpack_build_before(directory / "before")
    return None if before is None else Builds(before, make_build_after(directory / "after"))


def make_upgrade(builds: Builds) -> Fault:
    """For a cluster whose brokers all run the build before."""

    def upgrade(context: FaultContext) -> str:
        administration = Administration(context.cluster)
        order = context.random.sample(context.cluster.brokers, len(context.cluster.brokers))
        back_after = context.random.randint(1, len(order)) if context.random.random() < _GO_BACK_CHANCE else None
        for count, broker in enumerate(order, start=1):
            _replace(context, broker, builds.after)
            if count < len(order):
                _check_refused(context, administration, count)
            if count == back_after:
                for each in reversed(order[:count]):
                    _replace(context, each, builds.before)
                for each in order[:count]:
                    _replace(context, each, builds.after)
        try:
            administration.raise_level(LEVEL_AFTER)
        except ApiError as error:
            context.problems.append(f"upgrade: the level is not raised although all brokers know it: {error}")
        went_back = "" if back_after is None else f", after {back_after} once back and again"
        return f"update brokers {', '.join(str(broker.node_id) for broker in order)}{went_back}, and raise the level"

    return upgrade


def _replace(context: FaultContext, broker: Broker, build: Path) -> None:
    """The broker's machine gets another build; some of the times it is no clean stop."""
    if context.random.random() < _KILL_CHANCE:
        broker.kill()
    else:
        broker.terminate()
    broker.environment = run_by(build)
    broker.start()
    problem = context.cluster.wait_until_in_sync(DEADLINE_S)
    if problem:
        context.problems.append(f"upgrade: after broker {broker.node_id}: {problem}")


def _check_refused(context: FaultContext, administration: Administration, updated: int) -> None:
    try:
        administration.raise_level(LEVEL_AFTER)
    except ApiError:
        return
    context.problems.append(f"upgrade: the level was raised when {updated} of {len(context.cluster.brokers)} knew it")
