"""`penstock policies`: what is allowed and denied on topics that bear a tag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.security.policies import change_policy, read_policies, remove_policy
from penstock.cli.commands.security.acls import explain as explain_access
from penstock.cli.errors import CliError, UsageError
from penstock.cli.options import AsJson, Yes, confirm, on_cluster
from penstock.cli.plans.acls import parse_principal
from penstock.cli.views.acls import policy_documents, policy_table
from penstock.security.policies.policy import (
    ADDRESSES,
    ALLOW,
    DENY,
    EFFECT,
    FROM,
    OPERATIONS,
    PRINCIPALS,
    TAG,
    UNTIL,
    PolicyError,
    parse_policy,
)

app = typer.Typer(
    help="Allow and deny by tag: topics bear tags (the setting penstock.tags).",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("explain")(explain_access)

PolicyName = Annotated[str, typer.Argument(metavar="POLICY", show_default=False)]


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    tag: Annotated[str, typer.Option("--tag", metavar="TAG", help="Topics with this tag: pii, region:eu.")]
    allow: Annotated[bool, typer.Option("--allow", help="Allow.")] = False
    deny: Annotated[bool, typer.Option("--deny", help="Deny, before any ACL.")] = False
    principal: Annotated[
        list[str] | None,
        typer.Option("--principal", "-p", metavar="PRINCIPAL", help="Whom (default: everybody); repeatable."),
    ] = None
    operation: Annotated[
        list[str] | None,
        typer.Option("--operation", "-o", metavar="OPERATION", help="What (default: All); repeatable."),
    ] = None
    begin: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Holds from 2026-01-31T08:00:00Z on.")] = (
        None
    )
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Holds until then.")] = None
    address: Annotated[
        list[str] | None,
        typer.Option("--address", metavar="CIDR", help="For clients from there: 10.0.0.0/8; repeatable."),
    ] = None

    def settings(self) -> dict[str, str | None]:
        """Those that are not given are taken away: a policy is what was said last."""
        if self.allow is self.deny:
            raise UsageError("say --allow or --deny")
        principals = [each if each == "*" else parse_principal(each) for each in self.principal or ()]
        return {
            TAG: self.tag,
            EFFECT: ALLOW if self.allow else DENY,
            PRINCIPALS: ",".join(principals) or None,
            OPERATIONS: ",".join(self.operation or ()) or None,
            FROM: self.begin,
            UNTIL: self.until,
            ADDRESSES: ",".join(self.address or ()) or None,
        }


@app.command()
@on_cluster
def add(cluster: ClusterClient, name: PolicyName, what: PolicyOptions, as_json: AsJson = False) -> None:
    """Add a policy, or put another one in its place."""
    settings = what.settings()
    given = {key: value for key, value in settings.items() if value is not None}
    try:
        policy = parse_policy(name, given)
    except PolicyError as error:
        raise UsageError(str(error)) from None
    change_policy(cluster, name, settings)
    if as_json:
        output.print_json(policy_documents({name: given})[0])
    else:
        output.note(f"Added {policy}.")


@app.command()
@on_cluster
def remove(cluster: ClusterClient, name: PolicyName, yes: Yes = False, as_json: AsJson = False) -> None:
    """Remove a policy."""
    policies = read_policies(cluster)
    if name not in policies:
        raise CliError(f"there is no policy {name}", "See: penstock policies list")
    confirm(f"Remove the policy {name}?", yes)
    remove_policy(cluster, name)
    if as_json:
        output.print_json(policy_documents({name: policies[name]})[0])
    else:
        output.note(f"Removed the policy {name}.")


@app.command("list")
@on_cluster
def list_policies(cluster: ClusterClient, as_json: AsJson = False) -> None:
    """List policies."""
    policies = read_policies(cluster)
    if as_json:
        output.print_json(policy_documents(policies))
    else:
        output.print_table(policy_table(policies), "There are no policies.")
