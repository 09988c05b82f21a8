"""`penstock cluster`: start one on this machine; the brokers of any, what they serve and what they store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import REQUEST_TIMEOUT_SECONDS, ClusterClient, fetch_metadata, wait
from penstock.cli.access.cluster_now import try_list_moves
from penstock.cli.access.raw_client import check_error, open_admin, open_broker
from penstock.cli.commands.cluster_replicas import app as replicas_app
from penstock.cli.errors import CliError, UsageError
from penstock.cli.options import AsJson, on_cluster
from penstock.cli.restart_options import BrokerIds, RestartOptions
from penstock.cli.text import parse_settings
from penstock.cli.views.cluster import (
    BrokerView,
    api_documents,
    api_table,
    broker_table,
    choose_brokers,
    feature_documents,
    feature_rises,
    feature_table,
    log_directory_documents,
    log_directory_table,
    partition_counts,
    partition_size_table,
)
from penstock.protocol.messages.api_versions import ApiVersionsResponse

app = typer.Typer(
    help="Start a cluster on this machine, look at the brokers of any.", no_args_is_help=True, rich_markup_mode=None
)


@app.command()
def start(
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the data goes, and is found at the next start.")
    ] = None,
    brokers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many.  [default: as many as there are in DIR, or 3]")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65_535,
            help="The first broker's; the others follow. 0 takes free ones.  [default: as last time, or 9092]",
        ),
    ] = None,
    zookeeper: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,...[/PATH]", help="A ZooKeeper that runs already.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of all brokers; beats the file.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Property file with settings of all brokers, for secrets, too.")
    ] = None,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure", help="Ask for TLS and a login. Certificates and an admin user are made at the first start."
        ),
    ] = False,
) -> None:
    """Start a ZooKeeper and brokers on this machine, and show how they are.

    Ctrl-C stops them one by one; Ctrl-C again ends them at once. Without --data nothing is kept.
    """
    from penstock.cli.cluster_start import ClusterOptions, read_broker_properties, start_cluster

    output.warn_of_secrets(set_, "Write it into a file, and give that with --config.")
    settings = {} if config is None else read_broker_properties(config)
    settings |= parse_settings(set_)
    raise typer.Exit(start_cluster(ClusterOptions(data, brokers, port, zookeeper, settings, secure)))


@app.command()
def adopt(
    data: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="The node's data directory; repeated, where log.dirs has several."),
    ] = None,
    zookeeper: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,...[/PATH]", help="The cluster's zookeeper.connect.")
    ] = None,
    broker_id: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Its id in the cluster.  [default: the id that it has]")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The broker's properties, for what the options leave out.")
    ] = None,
) -> None:
    """Bring a single node, with all that it holds, into a cluster on ZooKeeper.

    The node must not run. Afterwards its broker starts with zookeeper.connect. A run that was interrupted is repeated:
    it goes on where it stopped.
    """
    from penstock.cli.cluster_adopt import AdoptOptions, adopt_node

    raise typer.Exit(adopt_node(AdoptOptions(tuple(data or ()), zookeeper, broker_id, config)))


_ZooKeeper = Annotated[
    str | None, typer.Option("--zookeeper", metavar="HOST:PORT,...[/PATH]", help="The cluster's zookeeper.connect.")
]
_BrokerProperties = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="A broker's properties, for zookeeper.connect and its security."),
]


@app.command()
def snapshot(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Written whole or not at all, readable by you alone.")],
    zookeeper: _ZooKeeper = None,
    config: _BrokerProperties = None,
) -> None:
    """Write down what ZooKeeper holds: topics, settings, assignments, counters; as JSON that a person can read.

    Brokers may run. Records are not in it: they are on the brokers' disks.
    """
    from penstock.cli.cluster_snapshot import write_snapshot

    write_snapshot(file, zookeeper, config)


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A snapshot.")],
    zookeeper: _ZooKeeper = None,
    config: _BrokerProperties = None,
    command_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Client settings, for brokers with TLS listeners alone.")
    ] = None,
    force: Annotated[
        str | None,
        typer.Option(metavar="CLUSTER-ID", help="Remove the metadata of this cluster from the ensemble first."),
    ] = None,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="When the time is up, elect without the brokers that are missing."),
    ] = False,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=1.0, help="How long to wait for the brokers.")
    ] = 3600.0,
) -> None:
    """Put a snapshot into a ZooKeeper that has lost everything, and elect leaders once the brokers are back.

    Stop all brokers first, and start them when the command says so. It then asks each replica how far its log goes.
    Run it again after an interruption: it goes on where it stopped.
    """
    from penstock.cli.cluster_snapshot import RestoreOptions, restore_snapshot

    restore_snapshot(file, RestoreOptions(zookeeper, config, command_config, force, accept_loss, timeout))


def _read_brokers(cluster: ClusterClient) -> tuple[str, int | None, list[BrokerView]]:
    admin = cluster.admin()
    described: Any = wait(lambda: admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_SECONDS))
    brokers = [BrokerView(node.id, node.host, node.port, node.rack or None) for node in described.nodes]
    controller = described.controller.id if described.controller is not None else None
    return described.cluster_id, controller, sorted(brokers)


@app.command()
@on_cluster
def describe(cluster: ClusterClient, as_json: AsJson = False) -> None:
    """Show the cluster's id, controller, brokers, missing replicas and features."""
    cluster_id, controller, brokers = _read_brokers(cluster)
    counts = partition_counts(fetch_metadata(cluster.admin()), try_list_moves(cluster))
    try:
        with open_broker(cluster) as broker:
            versions = broker.served
    except UsageError:  # a login that our own connection does not know; the rest can still be told
        versions = ApiVersionsResponse()
    if as_json:
        output.print_json(
            {
                "cluster_id": cluster_id,
                "controller": controller,
                "brokers": [broker._asdict() for broker in brokers],
                **counts._asdict(),
                "features": feature_documents(versions),
            }
        )
        return
    output.print_fields(
        [
            ("Cluster", cluster_id),
            ("Controller", controller),
            ("Brokers", len(brokers)),
            ("Topics", counts.topics),
            ("Partitions", counts),
            ("APIs", len(versions.api_keys)),
        ]
    )
    output.say("")
    output.print_table(broker_table(brokers, controller))
    if versions.supported_features:
        output.say("")
        output.print_table(feature_table(versions))


@app.command()
@on_cluster
def status(
    cluster: ClusterClient,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again and again, until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(metavar="SECONDS", min=0.5, help="Between two looks of --watch.")] = 5.0,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="How long a broker may take to answer.")
    ] = 5.0,
    as_json: AsJson = False,
) -> None:
    """Show on one screen how the cluster is, and for everything wrong what to do.

    Ends with 0 where the cluster is healthy, with 1 where something is wrong, and with 3 where no broker answers.
    """
    from penstock.cli.cluster_status import show_status, watch_status

    with open_admin(cluster, timeout) as admin:
        if watch:
            watch_status(admin, as_json=as_json, interval_s=interval)
        raise typer.Exit(show_status(admin, as_json=as_json))


@app.command()
@on_cluster
def restart(cluster: ClusterClient, options: RestartOptions) -> None:
    """Restart one broker after the other, the controller last, while clients go on.

    Before each one nothing may lack replicas. After each one the command waits until the broker is back, everything is
    in sync and the broker leads what it should. It stops with the reason when that does not come.
    """
    from penstock.cli.cluster_restart import restart_cluster

    restart_cluster(cluster, options)


@app.command()
@on_cluster
def upgrade(
    cluster: ClusterClient,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say whether it can be done, but do nothing.")] = False,
) -> None:
    """Let the cluster use what its version of Penstock has new, when all brokers run that version.

    Brokers of the version before do not start in the cluster afterwards, and there is no way back.
    """
    from penstock.protocol.messages.update_features import (
        FeatureUpdateKey,
        UpdateFeaturesRequest,
        UpdateFeaturesResponse,
    )

    with open_broker(cluster) as broker:
        rises = feature_rises(broker.served)
        if not rises:
            output.note("There is nothing to do: every feature is at the highest level that this broker knows.")
            return
        keys = [FeatureUpdateKey(feature=rise.name, max_version_level=rise.after) for rise in rises]
        request = UpdateFeaturesRequest(feature_updates=keys, validate_only=dry_run)
        response = broker.request(request, UpdateFeaturesResponse)
    if response.error_code:
        hint = "Update all brokers to the same version first; `penstock cluster describe` shows who is there."
        raise CliError(response.error_message or f"error {response.error_code}", hint)
    for rise in rises:
        output.note(f"{rise.name} {'can rise' if dry_run else 'has risen'} from {rise.before} to {rise.after}.")


@app.command("api-versions")
@on_cluster
def api_versions(cluster: ClusterClient, broker: BrokerIds = None, as_json: AsJson = False) -> None:
    """Show which requests a broker serves, in which versions."""
    addresses: list[tuple[str, int] | None] = [None]
    if broker is not None:
        addresses = [(view.host, view.port) for view in choose_brokers(_read_brokers(cluster)[2], broker)]
    for address in addresses:
        with open_broker(cluster, address) as client:
            versions = client.served
        if as_json:
            output.print_json(api_documents(versions))
        else:
            output.print_table(api_table(versions))


@app.command("log-dirs")
@on_cluster
def log_directories(
    cluster: ClusterClient,
    broker: BrokerIds = None,
    topic: Annotated[list[str] | None, typer.Option("--topic", "-t", help="Only this topic; may be repeated.")] = None,
    partitions: Annotated[bool, typer.Option("--partitions", help="The size of each partition.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the brokers' data directories and what fills them."""
    from penstock.admin.queries.nodes import directories_request
    from penstock.protocol.messages.describe_log_dirs import DescribeLogDirsResponse

    brokers = []
    for view in choose_brokers(_read_brokers(cluster)[2], broker):
        with open_broker(cluster, (view.host, view.port)) as client:
            response = client.request(directories_request(None), DescribeLogDirsResponse)
        check_error(response.error_code, f"broker {view.id}")
        brokers.append((view.id, response.results))
    wanted = frozenset(topic) if topic else None
    if as_json:
        output.print_json(log_directory_documents(brokers, wanted))
    elif partitions or topic:
        output.print_table(partition_size_table(brokers, wanted), "There are no such partitions.")
    else:
        output.print_table(log_directory_table(brokers))


app.registered_commands.extend(replicas_app.registered_commands)
