"""`penstock configs`: settings of topics and brokers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import ClusterClient, fetch_metadata
from penstock.cli.access.configs import alter_settings, read_settings
from penstock.cli.completion import complete_topic
from penstock.cli.options import AsJson, on_cluster
from penstock.cli.text import plural
from penstock.cli.views.configs import (
    Resource,
    ResourceKind,
    choose_resource,
    own_settings,
    parse_changes,
    setting_documents,
    setting_table,
)

app = typer.Typer(help="Read and change settings of topics and brokers.", no_args_is_help=True, rich_markup_mode=None)

Topic = Annotated[
    str | None, typer.Option("--topic", "-t", metavar="NAME", autocompletion=complete_topic, help="A topic's settings.")
]
Broker = Annotated[int | None, typer.Option("--broker", metavar="ID", min=0, help="A broker's settings.")]
BrokerDefaults = Annotated[bool, typer.Option("--broker-defaults", help="The defaults of every broker.")]
EntityType = Annotated[str | None, typer.Option(metavar="TYPE", help="topics or brokers, as kafka-configs has it.")]
EntityName = Annotated[str | None, typer.Option(metavar="NAME", help="Goes with --entity-type.")]
EntityDefault = Annotated[bool, typer.Option("--entity-default", help="Goes with --entity-type brokers.")]


@dataclass(frozen=True, slots=True)
class ResourceOptions:
    """The resource whose settings are read or changed."""

    topic: Topic = None
    broker: Broker = None
    broker_defaults: BrokerDefaults = False
    entity_type: EntityType = None
    entity_name: EntityName = None
    entity_default: EntityDefault = False

    @property
    def resource(self) -> Resource:
        return choose_resource(
            self.topic, self.broker, self.broker_defaults, self.entity_type, self.entity_name, self.entity_default
        )


@app.command()
@on_cluster
def describe(
    cluster: ClusterClient,
    chosen: ResourceOptions,
    every: Annotated[bool, typer.Option("--all", help="Also what it inherits.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what is set; with --all, everything that holds."""
    resource = chosen.resource
    settings = read_settings(cluster, [resource])[resource]
    shown = settings if every else own_settings(resource, settings)
    if as_json:
        document = {"type": resource.kind.name.lower(), "name": resource.name, "settings": setting_documents(shown)}
        output.print_json(document)
    else:
        output.print_table(setting_table(shown), f"Nothing is set for {resource}; --all shows what it inherits.")


@app.command("list")
@on_cluster
def list_configs(
    cluster: ClusterClient,
    every: Annotated[bool, typer.Option("--all", help="Also those with nothing set.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the topics and brokers that have settings of their own."""
    metadata = fetch_metadata(cluster.admin())
    resources = [Resource(ResourceKind.TOPIC, name) for name in sorted(metadata.topics)]
    resources += [
        Resource(ResourceKind.BROKER, ""),
        *(Resource(ResourceKind.BROKER, str(b)) for b in sorted(metadata.brokers)),
    ]
    settings = read_settings(cluster, resources)
    own = {resource: own_settings(resource, settings[resource]) for resource in resources}
    shown = [resource for resource in resources if every or own[resource]]
    if as_json:
        output.print_json(
            [
                {"type": r.kind.name.lower(), "name": r.name, "settings": {s.name: s.shown_value for s in own[r]}}
                for r in shown
            ]
        )
        return
    table = output.Table(("TYPE", "NAME", "SETTINGS"))
    for resource in shown:
        text = " ".join(f"{setting.name}={setting.shown_value}" for setting in sorted(own[resource]))
        table.add(resource.kind.name.lower(), resource.name or "(defaults)", text or None)
    output.print_table(table, "Nothing has settings of its own; --all shows every topic and broker.")


@app.command()
@on_cluster
def alter(
    cluster: ClusterClient,
    chosen: ResourceOptions,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a value.")] = None,
    delete: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Back to the inherited value.")] = None,
    append: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Add to a list.")] = None,
    subtract: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Take out of a list.")] = None,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Check, but change nothing.")] = False,
) -> None:
    """Change settings; those not named stay as they are."""
    resource = chosen.resource
    changes = parse_changes(set_, delete, append, subtract)
    output.warn_of_secrets(set_)
    alter_settings(cluster, resource, changes, validate_only)
    done = "Would change" if validate_only else "Changed"
    output.note(f"{done} {plural(len(changes), 'setting')} of {resource}.")
