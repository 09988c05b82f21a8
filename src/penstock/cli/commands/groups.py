"""`penstock groups`: consumer groups, their lag and their offsets."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import REQUEST_TIMEOUT_SECONDS, ClusterClient, raise_failures, wait, wait_each
from penstock.cli.access.groups import delete_offsets, list_group_ids, read_committed, read_group, read_lags
from penstock.cli.commands.group_reset import app as reset_app
from penstock.cli.completion import complete_group, complete_topic
from penstock.cli.errors import CliError, UsageError, explain_exception
from penstock.cli.options import AsJson, Yes, confirm, on_cluster
from penstock.cli.plans.offset_reset import parse_topic_selection
from penstock.cli.views.groups import group_document, group_fields, lag_table, member_table, state_words

app = typer.Typer(
    help="Look at consumer groups, move and delete their offsets.", no_args_is_help=True, rich_markup_mode=None
)
app.registered_commands.extend(reset_app.registered_commands)

GroupNames = Annotated[list[str], typer.Argument(metavar="GROUP", autocompletion=complete_group, show_default=False)]


@app.command("list")
@on_cluster
def list_groups(
    cluster: ClusterClient,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="Only groups in this state, e.g. Stable, Empty."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Names only.")] = False,
    as_json: AsJson = False,
) -> None:
    """List consumer groups."""
    admin = cluster.admin()
    listing = wait(lambda: admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_SECONDS))
    wanted = {name.replace("_", "").lower() for text in state or () for name in text.split(",")}
    rows = sorted(
        (group.group_id, state_words(group.state.name), state_words(group.type.name), group.is_simple_consumer_group)
        for group in listing.valid or ()
        if not wanted or group.state.name.replace("_", "").lower() in wanted
    )
    if as_json:
        keys = ("group", "state", "type", "simple")
        output.print_json([dict(zip(keys, row, strict=True)) for row in rows])
    elif quiet:
        for group_id, *_ in rows:
            output.say(group_id)
    else:
        table = output.Table(("GROUP", "STATE", "TYPE"))
        for group_id, group_state, group_type, _ in rows:
            table.add(group_id, group_state, group_type)
        output.print_table(table, "There are no such groups." if wanted else "There are no groups.")
    raise_failures(explain_exception(error) for error in listing.errors or ())


@app.command()
@on_cluster
def describe(
    cluster: ClusterClient,
    groups: Annotated[
        list[str] | None, typer.Argument(metavar="GROUP", autocompletion=complete_group, show_default=False)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Describe every group.")] = False,
    members: Annotated[bool, typer.Option("--members", help="Who is in it and reads what.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Only the group's state.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Committed offsets and lag (default).")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a group's state, its members, its offsets and lag."""
    if not groups and not every:
        raise UsageError("name a group", "Or describe all of them with --all.")
    admin = cluster.admin()
    names = list_group_ids(admin) if every else groups
    described = [read_group(admin, name) for name in names or ()]
    lags = [read_lags(admin, group) for group in described]
    if as_json:
        output.print_json([group_document(group, lag) for group, lag in zip(described, lags, strict=True)])
        return
    for index, (group, lag) in enumerate(zip(described, lags, strict=True)):
        if index:
            output.say("")
        output.print_fields(group_fields(group, lag))
        if offsets or not (members or state):
            output.say("")
            output.print_table(lag_table(lag), "The group has no committed offsets and reads nothing.")
        if members:
            output.say("")
            output.print_table(member_table(group), "The group has no members.")


@app.command()
@on_cluster
def delete(cluster: ClusterClient, groups: GroupNames, yes: Yes = False) -> None:
    """Delete groups that have no members, with their committed offsets."""
    confirm(f"Delete {', '.join(groups)} with all committed offsets?", yes)
    admin = cluster.admin()
    for name in groups:  # finds the coordinator, which may just be starting, before anything is deleted
        read_group(admin, name)
    futures = admin.delete_consumer_groups(groups, request_timeout=REQUEST_TIMEOUT_SECONDS)
    deleted, failures = wait_each(futures)
    for name in deleted:
        output.note(f"Deleted group {name}.")
    raise_failures(failures.values())


@app.command("delete-offsets")
@on_cluster
def delete_group_offsets(
    cluster: ClusterClient,
    group: Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_group, show_default=False)],
    topic: Annotated[
        list[str],
        typer.Option("--topic", "-t", metavar="TOPIC[:P,...]", autocompletion=complete_topic, help="Whose offsets."),
    ],
    yes: Yes = False,
) -> None:
    """Forget the committed offsets of topics."""
    selections = [parse_topic_selection(text) for text in topic]
    admin = cluster.admin()
    committed = read_committed(admin, group)
    chosen = sorted(
        key
        for key in committed
        for selection in selections
        if key.topic == selection.topic and (selection.partitions is None or key.partition in selection.partitions)
    )
    if not chosen:
        raise CliError(f"group {group} has no committed offsets there", f"See: penstock groups describe {group}")
    confirm(f"Forget the offsets of {', '.join(map(str, chosen))}?", yes)
    failures = delete_offsets(cluster, group, chosen)
    for key in chosen:
        if key not in failures:
            output.note(f"Deleted the offset of {key}.")
    raise_failures(failures.values())
