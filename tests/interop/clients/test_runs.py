"""Runs that are seen and told what to do by way of topics need nothing that only our broker has."""

from __future__ import annotations

from penstock.testing.processes import ServerProcess
from tests.clients.cli_runner import Cli
from tests.clients.seen_runs import see_a_run_paused_resumed_restarted_and_stopped


def test_run_is_seen_and_obeys_when_it_is_paused_resumed_restarted_and_stopped(broker: ServerProcess) -> None:
    see_a_run_paused_resumed_restarted_and_stopped(Cli(broker.bootstrap_servers))
