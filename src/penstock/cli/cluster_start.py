"""`penstock cluster start`: brokers and a ZooKeeper in the foreground, shown until they are to stop.

The first Ctrl-C (or SIGTERM, or the end of the terminal) stops the brokers one by one, the controller last, then
ZooKeeper. A second one ends them at once. During the start the first one does.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from penstock.cli import output
from penstock.cli.display import Display
from penstock.cli.errors import CliError, ExitCode, UsageError
from penstock.cli.progress import is_watched
from penstock.cli.views.running_cluster import RunningView, running_table, view_of
from penstock.client.addresses import Address, parse_servers
from penstock.core.config.types import ConfigError
from penstock.core.properties import read_properties
from penstock.core.sockets.host_names import failing_as_unknown
from penstock.local_cluster.cluster import Cluster, stopping_order
from penstock.local_cluster.directory import ClusterDirectory
from penstock.local_cluster.errors import ClusterError
from penstock.local_cluster.members import ClusterBroker
from penstock.local_cluster.process_members import ProcessMembers
from penstock.local_cluster.requests import RequestBox, RestartRequest
from penstock.local_cluster.restarts import restart_broker
from penstock.processes.server_process import ServerProcessError
from penstock.processes.zookeeper_jars import ZooKeeperMissingError

if TYPE_CHECKING:
    from rich.console import Group

DEFAULT_BROKERS = 3
DEFAULT_PORT = 9092  # where every other command looks for a broker
_HOST = "127.0.0.1"
_ZOOKEEPER_PORT = 2181
_CONNECT_TIMEOUT_S = 5.0
_LOOK_EVERY_S = 1.0
_NAP_S = 0.1  # how soon Ctrl-C is noticed
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ClusterOptions(NamedTuple):
    data: Path | None
    brokers: int | None
    port: int | None
    zookeeper: str | None
    settings: dict[str, str]
    is_secure: bool = False


def start_cluster(options: ClusterOptions) -> int:
    """Blocks until the cluster is to stop; returns the exit code."""
    if options.zookeeper is not None:
        _check_zookeeper(options.zookeeper)
    with _explained(), Interrupts() as interrupts:
        cluster = _choose(options)
        cluster.prepare()
        try:
            _announce(cluster, options)
            with _waiting():
                cluster.start()
        except KeyboardInterrupt:
            output.note("Interrupted: everything that was started has ended.")
            return ExitCode.INTERRUPTED
        finally:
            interrupts.raise_at = 2
        try:
            # Nobody else knows where a temporary directory is.
            requests = None if options.data is None else RequestBox(options.data.absolute())
            return _run(cluster, interrupts, requests)
        finally:
            cluster.abandon()


def read_broker_properties(path: Path) -> dict[str, str]:
    try:
        return read_properties(path)
    except ConfigError as error:
        raise UsageError(str(error), "Check the file given to --config.") from None


class Interrupts:
    """Counts requests to stop, and raises KeyboardInterrupt at the `raise_at`th. Those that come later change nothing:
    the end is under way.
    """

    def __init__(self) -> None:
        self.count = 0
        self.raise_at = 1
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count == self.raise_at:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            signal.signal(number, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except ClusterError as error:
        raise CliError(error.message, error.hint) from error
    except ZooKeeperMissingError as error:
        raise CliError(error.message, f"{error.hint}\nHere: --zookeeper HOST:PORT.") from error
    except ServerProcessError as error:
        raise CliError(str(error)) from error


def _choose(options: ClusterOptions) -> Cluster:
    """What the user leaves open is as it was at the last start."""
    brokers, port = options.brokers, options.port
    if options.data is not None:
        directory = ClusterDirectory.open(options.data)
        last = directory.read_ports().brokers
        directory.close()
        brokers = brokers or len(last) or None
        port = 0 if port is None and last else port
    return Cluster(
        DEFAULT_BROKERS if brokers is None else brokers,
        options.data,
        options.settings,
        port=DEFAULT_PORT if port is None else port,
        host=_HOST,
        zookeeper=options.zookeeper,
        secure=options.is_secure,
    )


def _check_zookeeper(text: str) -> None:
    reasons = []
    for host, port in _zookeeper_servers(text):
        try:
            with failing_as_unknown():
                socket.create_connection((host, port), _CONNECT_TIMEOUT_S).close()
            return
        except OSError as error:
            reasons.append(f"{host}:{port} ({error.strerror or error})")
    raise CliError(
        f"no ZooKeeper answers at {', '.join(reasons)}",
        "Start it, or leave --zookeeper out: then the cluster starts one of its own.",
        ExitCode.UNREACHABLE,
    )


def _zookeeper_servers(text: str) -> list[Address]:
    servers = text.partition("/")[0].split(",")
    try:
        parsed = parse_servers(",".join(each if ":" in each else f"{each}:{_ZOOKEEPER_PORT}" for each in servers))
    except ValueError as error:
        raise UsageError(f"--zookeeper {text!r} names no servers", "Write it as HOST:PORT,HOST:PORT/PATH.") from error
    return parsed


def _announce(cluster: Cluster, options: ClusterOptions) -> None:
    members = cluster.members
    assert isinstance(members, ProcessMembers)
    output.note(f"ZooKeeper  {members.connect}{'' if members.zookeeper is None else ', started here'}")
    output.note(f"Brokers    {cluster.bootstrap_servers}")
    output.note(f"Data       {options.data or 'temporary, removed at the end'}")
    if cluster.setup is not None:
        output.note(f"Clients    --command-config {cluster.setup.client_file}")
        if members.zookeeper is None and "/" not in members.connect:
            output.note(
                "Whoever reaches this ZooKeeper can delete nodes at its root, where a version before put the cluster. "
                "See `Who may do what` in docs/guides/zookeeper.md."
            )


@contextlib.contextmanager
def _waiting() -> Iterator[None]:
    """Says how long the start took. Meanwhile something moves, if a person watches."""
    began = time.monotonic()
    if is_watched():
        from rich.console import Console

        with Console(stderr=True).status("Starting ..."):
            yield
    else:
        yield
    output.note(f"Started in {time.monotonic() - began:.1f} s\n")


def _run(cluster: Cluster, interrupts: Interrupts, requests: RequestBox | None) -> int:
    if requests is not None:
        requests.clear()
    with Display(_render, _print) as display:
        is_over = _watch(cluster, interrupts, display, requests)
    if is_over:
        output.note("All brokers have ended.")
        return ExitCode.FAILURE
    try:
        _stop(cluster)
    except KeyboardInterrupt:
        cluster.abandon()
        output.note("Ended at once. The next start checks what was written last.")
        return ExitCode.INTERRUPTED
    output.note("Stopped.")
    return ExitCode.SUCCESS


def _watch(
    cluster: Cluster, interrupts: Interrupts, display: Display[RunningView], requests: RequestBox | None
) -> bool:
    """Until it is interrupted, or, True, no broker is left."""
    told: set[int] = set()
    while not interrupts.count:
        view = view_of(list(cluster.brokers), cluster.states(with_ended=True))
        for broker in cluster.brokers:
            if broker.is_running:
                told.discard(broker.node_id)
            elif broker.node_id not in told:
                told.add(broker.node_id)
                display.tell(_end_of(broker))
        display.show(view)
        if view.is_over:
            return True
        request = _nap(interrupts, requests)
        if request is not None and requests is not None:
            requests.answer(request.request_id, _serve(cluster, request, display))
    return False


def _nap(interrupts: Interrupts, requests: RequestBox | None) -> RestartRequest | None:
    """Until it is time for another look, or another command wants something."""
    until = time.monotonic() + _LOOK_EVERY_S
    while not interrupts.count and time.monotonic() < until:
        request = None if requests is None else requests.take()
        if request is not None:
            return request
        time.sleep(_NAP_S)
    return None


def _serve(cluster: Cluster, request: RestartRequest, display: Display[RunningView]) -> str:
    """Why the broker was not restarted; empty when it was."""
    display.tell(f"Restarting broker {request.node_id} ...")
    try:
        restart_broker(cluster.broker(request.node_id), request.config)
    except (ClusterError, ServerProcessError, OSError) as error:
        return str(error)
    return ""


def _end_of(broker: ClusterBroker) -> str:
    what = broker.unasked_end.partition("\n")[0] or f"broker {broker.node_id} ended"
    log_path = broker.log_path
    assert log_path is not None, "a process has a log"
    properties = log_path.with_suffix(".properties")
    return f"{what}; see {_short(log_path)}\nTo bring it back: penstock broker start --config {_short(properties)}\n"


def _short(path: Path) -> Path:
    """As it would be typed here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _stop(cluster: Cluster) -> None:
    for broker in stopping_order(cluster):
        output.note(f"Stopping broker {broker.node_id} ...")
        broker.stop()
    members = cluster.members
    if isinstance(members, ProcessMembers) and members.zookeeper is not None:
        output.note("Stopping ZooKeeper ...")
    members.stop_store()


def _print(view: RunningView) -> None:
    output.print_table(running_table(view))
    output.say(f"{view.summary}\n")


def _render(view: RunningView, is_last: bool) -> Group:
    from rich.console import Group
    from rich.text import Text

    below = "" if is_last else "\nCtrl-C stops the cluster."
    return Group(output.render_rich(running_table(view)), Text(f"\n{view.summary}{below}"))
