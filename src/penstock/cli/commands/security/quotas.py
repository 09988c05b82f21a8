"""`penstock quotas`: how much users, client ids and addresses may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.security.quotas import alter_quotas, read_quotas
from penstock.cli.options import AsJson, on_cluster
from penstock.cli.text import plural
from penstock.cli.views.quotas import (
    Entity,
    change_document,
    choose_entity,
    filter_for,
    parse_keys,
    parse_quotas,
    quota_documents,
    quota_table,
    require_entity,
    show_entity,
)
from penstock.security.quotas.entities import CLIENT_ID, IP, USER

app = typer.Typer(
    help="Limit how much users, client ids and addresses may do.", no_args_is_help=True, rich_markup_mode=None
)

User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="A user.")]
DefaultUser = Annotated[bool, typer.Option("--default-user", help="Every user without a quota of its own.")]
ClientId = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="A client id; also with a user.")]
DefaultClientId = Annotated[bool, typer.Option("--default-client-id", help="Every client id without its own.")]
Ip = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="An address, for connection_creation_rate.")]
DefaultIp = Annotated[bool, typer.Option("--default-ip", help="Every address without its own.")]


@dataclass(frozen=True, slots=True)
class EntityOptions:
    """Whose quotas are meant."""

    user: User = None
    default_user: DefaultUser = False
    client_id: ClientId = None
    default_client_id: DefaultClientId = False
    ip: Ip = None
    default_ip: DefaultIp = False

    @property
    def entity(self) -> Entity:
        names = {USER: self.user, CLIENT_ID: self.client_id, IP: self.ip}
        given = {USER: self.default_user, CLIENT_ID: self.default_client_id, IP: self.default_ip}
        return choose_entity(names, [each for each, is_given in given.items() if is_given])


ValidateOnly = Annotated[bool, typer.Option("--validate-only", help="Check, but change nothing.")]


@app.command("set")
@on_cluster
def set_quotas(
    cluster: ClusterClient,
    quotas: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE...", help="producer_byte_rate=10m, request_percentage=50, ...")
    ],
    whose: EntityOptions,
    validate_only: ValidateOnly = False,
    as_json: AsJson = False,
) -> None:
    """Set quotas; those not named stay as they are.

    Keys: producer_byte_rate and consumer_byte_rate (bytes a second; 64k, 10m), request_percentage (100 is the broker's
    whole loop), controller_mutation_rate (partitions a second), producer_ids_rate (new producer ids a second; of
    users), connection_creation_rate (of addresses).
    """
    entity = require_entity(whose.entity)
    values = parse_quotas(quotas)
    alter_quotas(cluster, entity, values, validate_only=validate_only)
    done = "Would set" if validate_only else "Set"
    _tell(f"{done} {plural(len(values), 'quota')} of {show_entity(entity)}.", entity, values, as_json)


@app.command()
@on_cluster
def remove(
    cluster: ClusterClient,
    whose: EntityOptions,
    keys: Annotated[list[str] | None, typer.Argument(metavar="[KEY...]", help="All of them by default.")] = None,
    validate_only: ValidateOnly = False,
    as_json: AsJson = False,
) -> None:
    """Remove quotas of an entity."""
    entity = require_entity(whose.entity)
    wanted = parse_keys(keys or ())
    found = [quotas for quotas in read_quotas(cluster, filter_for(entity), strict=True) if quotas.entity == entity]
    present = [key for quotas in found for key in quotas.values if not wanted or key in wanted]
    if not present:
        _tell(f"{show_entity(entity)} has no such quota.".capitalize(), entity, {}, as_json)
        return
    alter_quotas(cluster, entity, dict.fromkeys(present), validate_only=validate_only)
    done = "Would remove" if validate_only else "Removed"
    text = f"{done} {plural(len(present), 'quota')} of {show_entity(entity)}."
    _tell(text, entity, dict.fromkeys(present), as_json)


def _tell(text: str, entity: Entity, changed: Mapping[str, float | None], as_json: bool) -> None:
    """What has changed. In JSON a quota that was removed is null."""
    if as_json:
        output.print_json(change_document(entity, changed))
    else:
        output.note(text)


@app.command("list")
@on_cluster
def list_quotas(cluster: ClusterClient, whose: EntityOptions, as_json: AsJson = False) -> None:
    """List the quotas that are set: all, or those of an entity and of entities that contain it."""
    quotas = read_quotas(cluster, filter_for(whose.entity))
    if as_json:
        output.print_json(quota_documents(quotas))
    else:
        output.print_table(quota_table(quotas), "There are no such quotas.")
