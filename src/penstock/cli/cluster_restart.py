"""`penstock cluster restart`: from options to a rolling restart, and what the user is told of it."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from penstock.admin.state.brokers import BrokerState
from penstock.admin.state.cluster import ClusterState
from penstock.cli import output
from penstock.cli.access.client_properties import translate_client_properties
from penstock.cli.access.cluster_client import ClusterClient, parse_servers
from penstock.cli.access.raw_client import make_connect, open_admin
from penstock.cli.errors import CliError, ExitCode, UsageError
from penstock.cli.restart_options import RestartOptions
from penstock.cli.text import parse_settings, plural
from penstock.health.measurements import CAREFUL_LOOK
from penstock.health.rolling_restart import (
    NotRestartedError,
    Patience,
    Rolling,
    RollingError,
    check_known,
    find_interrupted,
    plan_order,
)
from penstock.local_cluster.directory import read_ports, security_directory
from penstock.local_cluster.errors import ClusterError
from penstock.local_cluster.requests import RequestBox
from penstock.protocol.errors import ApiError
from penstock.security_setup.setup import SecureSetup

_HOST = "127.0.0.1"
# A clean stop of a broker may take a minute where its disks are busy.
_REQUEST_TIMEOUT_S = 180.0
# Somebody may have to walk to the machine.
_BY_HAND_S = 24 * 3600.0
_WAYS = "--data, --command and --by-hand"


def restart_cluster(cluster: ClusterClient, options: RestartOptions) -> None:
    _check(options)
    output.warn_of_secrets(options.set_)
    servers = parse_servers(cluster.bootstrap_servers) if options.data is None else _local_servers(options.data)
    if options.data is not None:
        cluster = _with_local_login(cluster, options.data)
    with open_admin(cluster, servers=servers) as admin, _explained(options):
        observed = admin.read_wish(CAREFUL_LOOK)
        restart = _choose_way(options, observed)
        usual = Patience()
        patience = Patience(
            min(options.timeout, usual.before_s), _BY_HAND_S if options.by_hand else usual.restart_s, options.timeout
        )
        rolling = Rolling(admin, make_connect(cluster), restart, _tell, patience, is_careless=options.may_interrupt)
        if options.check is not None:
            check_known(observed, options.check)
            rolling.check(options.check)
            output.note(f"Broker {options.check} may stop.")
        elif options.wait is not None:
            rolling.wait(options.wait)
            output.note(f"Broker {options.wait} is back, and all is well.")
        else:
            _run(rolling, observed, options)


@contextlib.contextmanager
def _explained(options: RestartOptions) -> Iterator[None]:
    try:
        yield
    except RollingError as error:
        raise CliError(f"broker {error.left[0]}: {error.message}", _how_to_go_on(error, options)) from None
    except ValueError as error:
        raise UsageError(str(error), "`penstock cluster status` shows the brokers.") from error
    except (OSError, ApiError) as error:
        raise CliError(str(error), "Check --bootstrap-server.", ExitCode.UNREACHABLE) from error


def _check(options: RestartOptions) -> None:
    steps = sum(each is not None for each in (options.check, options.wait))
    ways = sum((options.data is not None, options.command is not None, options.by_hand))
    if steps > 1 or (steps and options.by_hand) or (steps and options.command is not None):
        raise UsageError("--check and --wait are steps of their own", f"Use one of them, without {_WAYS}.")
    if ways > 1 or (not steps and not ways and not options.dry_run):
        raise UsageError(f"a restart needs one of {_WAYS}", "Say how a broker is restarted, or give --dry-run.")
    if options.set_ and options.data is None:
        raise UsageError(
            "--set is for a cluster on this machine (--data)",
            "Elsewhere change the properties file of each broker, then restart.",
        )


def _local_servers(directory: Path) -> list[tuple[str, int]]:
    try:
        ports = read_ports(directory)
    except ClusterError as error:
        raise CliError(error.message, error.hint) from error
    if not ports.brokers:
        raise UsageError(f"{directory} is no directory of a cluster", "--data is that of `penstock cluster start`.")
    return [(_HOST, port) for port in ports.brokers.values()]


def _with_local_login(cluster: ClusterClient, directory: Path) -> ClusterClient:
    """A secure cluster has the file for its clients in its directory. What the user gives wins."""
    setup = SecureSetup(security_directory(directory))
    if not setup.is_there or "security.protocol" in cluster.settings:
        return cluster
    return replace(cluster, settings={**translate_client_properties(setup.client_properties()), **cluster.settings})


def _run(rolling: Rolling, observed: ClusterState, options: RestartOptions) -> None:
    order = plan_order(observed, options.broker or (), options.first)
    if options.dry_run:
        _describe(observed, order)
        return
    rolling.run(order)
    output.note(f"Restarted {plural(len(order), 'broker')}.")


def _describe(observed: ClusterState, order: Sequence[int]) -> None:
    for node_id in order:
        broker = observed.brokers[node_id]
        stopped = len(find_interrupted(observed, node_id))
        notes = ["the controller"] if node_id == observed.controller_id else []
        if stopped:
            notes.append(f"{plural(stopped, 'partition')} would stand still: --may-interrupt allows it")
        output.say(f"broker {node_id} at {broker.host}:{broker.port}{': ' if notes else ''}{'; '.join(notes)}")


def _choose_way(options: RestartOptions, observed: ClusterState) -> Callable[[int], None]:
    if options.data is not None:
        box, config = RequestBox(options.data.absolute()), parse_settings(options.set_)
        return lambda node_id: _ask_owner(box, node_id, config)
    if options.command is not None:
        words = _parse_command(options.command)
        return lambda node_id: _run_command(words, observed.brokers[node_id])
    return lambda node_id: _ask_somebody(observed.brokers[node_id])


def _ask_owner(box: RequestBox, node_id: int, config: Mapping[str, str]) -> None:
    try:
        box.ask_restart(node_id, config, _REQUEST_TIMEOUT_S)
    except ClusterError as error:
        raise NotRestartedError(str(error)) from error


def _parse_command(text: str) -> list[str]:
    try:
        words = shlex.split(text)
        for word in words:
            word.format(id=0, host="", port=0)
    except (ValueError, KeyError, IndexError) as error:
        raise UsageError(f"--command {text!r} cannot be read: {error}", "It knows {id}, {host} and {port}.") from error
    if not words:
        raise UsageError("--command is empty", "Write it like 'ssh {host} systemctl restart penstock'.")
    return words


def _run_command(words: Sequence[str], broker: BrokerState) -> None:
    filled = [word.format(id=broker.node_id, host=broker.host, port=broker.port) for word in words]
    output.note(f"  $ {shlex.join(filled)}")
    try:
        ended = subprocess.run(filled, stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise NotRestartedError(str(error)) from error
    if ended.returncode:
        raise NotRestartedError(f"the command ended with {ended.returncode}")


def _ask_somebody(broker: BrokerState) -> None:
    output.note(f"  Restart broker {broker.node_id} at {broker.host}:{broker.port} now.")


def _tell(node_id: int, what: str) -> None:
    output.note(f"Broker {node_id}: {what}")


def _how_to_go_on(error: RollingError, options: RestartOptions) -> str:
    if options.check is not None or options.wait is not None:
        return "`penstock cluster status` shows what is wrong, and what to do."
    left = " ".join(f"--broker {node_id}" for node_id in error.left)
    return (
        "The other brokers run as before. `penstock cluster status` shows what is wrong.\n"
        f"To go on later, repeat the command with {left}"
    )
