"""`penstock acls`: who may do what, by rules over the wire, of Penstock and of Apache Kafka alike."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.security.acls import add_acls, read_acls, remove_acls
from penstock.cli.completion import complete_group, complete_topic
from penstock.cli.errors import CliError, ExitCode, UsageError
from penstock.cli.options import AsJson, Yes, confirm, on_cluster
from penstock.cli.plans.acls import (
    Resources,
    Shortcuts,
    Subjects,
    parse_host,
    parse_operation,
    parse_principal,
    plan_filters,
    plan_rules,
)
from penstock.cli.text import plural
from penstock.cli.views.acls import acl_documents, acl_table, decision_document, decision_line, describe_rule
from penstock.security.acls.filters import AclFilter
from penstock.security.acls.index import ANYBODY, Asked
from penstock.security.acls.types import WILDCARD, PatternType, Permission

app = typer.Typer(help="Say who may do what.", no_args_is_help=True, rich_markup_mode=None)

Names = list[str] | None


@dataclass(frozen=True, slots=True)
class ResourceOptions:
    """What a rule is about."""

    topic: Annotated[
        Names, typer.Option("--topic", "-t", metavar="NAME", autocompletion=complete_topic, help="A topic, or *.")
    ] = None
    group: Annotated[
        Names, typer.Option("--group", "-g", metavar="NAME", autocompletion=complete_group, help="A group, or *.")
    ] = None
    transactional_id: Annotated[Names, typer.Option(metavar="ID", help="A transactional id, or *.")] = None
    delegation_token: Annotated[Names, typer.Option(metavar="ID", help="A delegation token, or *.")] = None
    user_principal: Annotated[
        Names, typer.Option(metavar="PRINCIPAL", help="A user whose tokens are made or looked at.")
    ] = None
    cluster_itself: Annotated[bool, typer.Option("--cluster", help="The cluster as a whole.")] = False

    def resources(self, pattern: PatternType) -> Resources:
        users = [parse_principal(text) for text in self.user_principal or ()]
        return Resources(
            tuple(self.topic or ()),
            tuple(self.group or ()),
            tuple(self.transactional_id or ()),
            tuple(self.delegation_token or ()),
            tuple(users),
            self.cluster_itself,
            pattern,
        )


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """Who may, or may not, do what."""

    principal: Annotated[
        Names, typer.Option("--principal", "-p", metavar="PRINCIPAL", help="Who: User:alice, alice, or User:*.")
    ] = None
    operation: Annotated[
        Names, typer.Option("--operation", "-o", metavar="OPERATION", help="Read, Write, Describe, ... (default: All).")
    ] = None
    host: Annotated[Names, typer.Option(metavar="ADDRESS", help="From where: an address (default: anywhere).")] = None
    deny: Annotated[bool, typer.Option("--deny", help="Deny instead of allow.")] = False
    prefixed: Annotated[bool, typer.Option("--prefixed", help="Names are the beginnings of names.")] = False
    producer: Annotated[
        bool, typer.Option("--producer", help="All that a producer needs: --topic, perhaps --transactional-id.")
    ] = False
    consumer: Annotated[bool, typer.Option("--consumer", help="All that a consumer needs: --topic and --group.")] = (
        False
    )
    idempotent: Annotated[bool, typer.Option("--idempotent", help="With --producer, for clients before 3.0.")] = False

    @property
    def pattern(self) -> PatternType:
        return PatternType.PREFIXED if self.prefixed else PatternType.LITERAL

    def subjects(self) -> Subjects:
        if not self.principal:
            raise UsageError("name a principal", "With --principal alice, or --principal 'User:*' for everybody.")
        return Subjects(
            tuple(parse_principal(text) for text in self.principal),
            tuple(self.host or (WILDCARD,)),
            Permission.DENY if self.deny else Permission.ALLOW,
        )

    def shortcuts(self) -> Shortcuts:
        return Shortcuts(self.producer, self.consumer, self.idempotent)


@app.command()
@on_cluster
def add(cluster: ClusterClient, what: ResourceOptions, who: RuleOptions, as_json: AsJson = False) -> None:
    """Add rules. A rule that is there already stays."""
    operations = [parse_operation(text) for text in who.operation or ()]
    for host in who.host or ():
        parse_host(host)
    acls = plan_rules(what.resources(who.pattern), who.subjects(), operations, who.shortcuts())
    add_acls(cluster, acls)
    if as_json:
        output.print_json(acl_documents(acls))
        return
    for acl in acls:
        output.note(f"Added: {describe_rule(acl)}")


@app.command()
@on_cluster
def remove(
    cluster: ClusterClient, what: ResourceOptions, who: RuleOptions, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Remove rules: those that the options name, as `add` has them; without --principal those of all principals."""
    operations = [parse_operation(text) for text in who.operation or ()]
    resources = what.resources(who.pattern)
    if who.producer or who.consumer:
        wanted = set(plan_rules(resources, who.subjects(), operations, who.shortcuts()))
        found = [acl for acl in read_acls(cluster, [AclFilter()]) if acl in wanted]
    else:
        if not list(resources.patterns()) and not who.principal:
            raise UsageError("name a resource or a principal", "For instance --topic orders, or --principal alice.")
        principals = [parse_principal(text) for text in who.principal or ()]
        permission = Permission.DENY if who.deny else Permission.ANY
        found = read_acls(cluster, plan_filters(resources, principals, who.host or (), operations, permission))
    if not found:
        raise CliError("there are no such rules", "See: penstock acls list")
    if not as_json:
        output.print_table(acl_table(found))
    confirm(f"Remove {plural(len(found), 'rule')}?", yes)
    removed = remove_acls(cluster, found)
    if as_json:
        output.print_json(acl_documents(removed))
    else:
        output.note(f"Removed {plural(len(removed), 'rule')}.")


@app.command("list")
@on_cluster
def list_acls(
    cluster: ClusterClient,
    what: ResourceOptions,
    principal: Annotated[Names, typer.Option("--principal", "-p", metavar="PRINCIPAL", help="Only theirs.")] = None,
    matching: Annotated[
        bool, typer.Option("--matching", help="All rules with a say about the names, prefixes and * included.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List rules."""
    resources = what.resources(PatternType.MATCH if matching else PatternType.ANY)
    principals = [parse_principal(text) for text in principal or ()]
    acls = read_acls(cluster, plan_filters(resources, principals, (), (), Permission.ANY))
    if as_json:
        output.print_json(acl_documents(acls))
    else:
        output.print_table(acl_table(acls), "There are no such rules.")


@app.command()
@on_cluster
def explain(
    cluster: ClusterClient,
    principal: Annotated[str, typer.Argument(metavar="PRINCIPAL", help="alice, or User:alice.")],
    operation: Annotated[str, typer.Argument(metavar="OPERATION", help="read, write, describe, ...")],
    what: ResourceOptions,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where from.")] = "127.0.0.1",
    as_json: AsJson = False,
) -> None:
    """Say whether somebody may do something, and which rule says so. Exit code 1: they may not."""
    from penstock.cli.access.security.rights import explain_access

    patterns = list(what.resources(PatternType.LITERAL).patterns())
    if len(patterns) != 1:
        raise UsageError("name one resource", "For instance --topic orders.")
    who = parse_principal(principal)
    if who == ANYBODY:
        raise UsageError("name a user", "User:* is everybody, and everybody is no one in particular.")
    asked = Asked(who, host, parse_operation(operation), patterns[0].type, patterns[0].name)
    explained = explain_access(cluster, asked, int(time.time() * 1000))
    if as_json:
        output.print_json(decision_document(*explained[:2], explained.tags, explained.notes))
    else:
        output.say(decision_line(asked, explained.decision))
        if explained.tags:
            output.say(f"The topic bears {', '.join(explained.tags)}.")
        for text in explained.notes:
            output.note(f"Note: {text}.")
    if not explained.decision.is_allowed:
        raise typer.Exit(ExitCode.FAILURE)
