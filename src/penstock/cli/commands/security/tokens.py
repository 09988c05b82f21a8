"""`penstock tokens`: delegation tokens, with which others log in in your name for a while."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import typer

from penstock.admin.state.tokens import TokenState
from penstock.cli import output
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.security.tokens import LONGEST_MS, create_token, expire_token, list_tokens, renew_token
from penstock.cli.options import AsJson, on_cluster
from penstock.cli.times import format_time, parse_duration_ms

app = typer.Typer(help="Let others log in in your name for a while.", no_args_is_help=True, rich_markup_mode=None)

TokenId = Annotated[str, typer.Argument(metavar="TOKEN")]


def _to_ms(duration: str | None) -> int:
    return LONGEST_MS if duration is None else parse_duration_ms(duration)


@app.command()
@on_cluster
def create(
    cluster: ClusterClient,
    owner: Annotated[str | None, typer.Option(metavar="User:NAME", help="Whose token it is, if not yours.")] = None,
    renewer: Annotated[
        list[str] | None, typer.Option(metavar="User:NAME", help="Who else may renew it; may be repeated.")
    ] = None,
    lifetime: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Its longest life, as 12h. [default: what the brokers allow]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a token; its secret is shown this once."""
    token = create_token(cluster, owner, renewer or [], _to_ms(lifetime))
    document = {
        "token": token.token_id,
        "hmac": base64.b64encode(token.hmac).decode(),
        "owner": token.owner,
        "expires": format_time(token.expires_ms),
        "ends": format_time(token.latest_ms),
    }
    if as_json:
        output.print_json(document)
        return
    table = output.Table(("TOKEN", "HMAC", "OWNER", "EXPIRES", "ENDS"))
    table.add(*document.values())
    output.print_table(table)


@app.command()
@on_cluster
def renew(
    cluster: ClusterClient,
    token: TokenId,
    period: Annotated[
        str | None, typer.Option(metavar="DURATION", help="For how long, as 12h. [default: what the brokers allow]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let a token live longer."""
    expires = format_time(renew_token(cluster, token, _to_ms(period)))
    if as_json:
        output.print_json({"token": token, "expires": expires})
    else:
        output.note(f"Token {token} expires at {expires}.")


@app.command()
@on_cluster
def expire(
    cluster: ClusterClient,
    token: TokenId,
    period: Annotated[
        str | None, typer.Option(metavar="DURATION", help="After this time, as 1h. [default: now]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """End a token, now or sooner than it would."""
    expiry_ms = expire_token(cluster, token, _to_ms(period))
    expires = None if expiry_ms < 0 else format_time(expiry_ms)
    if as_json:
        output.print_json({"token": token, "ended": expires is None, "expires": expires})
    else:
        output.note(f"Token {token} {'has ended' if expires is None else f'expires at {expires}'}.")


@app.command("list")
@on_cluster
def list_all(
    cluster: ClusterClient,
    owner: Annotated[
        list[str] | None, typer.Option(metavar="User:NAME", help="Only of this owner or renewer; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the tokens that you may see, without their secrets."""
    documents = [_document(token) for token in list_tokens(cluster, owner or [])]
    if as_json:
        output.print_json(documents)
        return
    table = output.Table(("TOKEN", "OWNER", "REQUESTER", "RENEWERS", "ISSUED", "EXPIRES", "ENDS"))
    for document in documents:
        table.add(*(",".join(cell) if isinstance(cell, list) else cell for cell in document.values()))
    output.print_table(table, "There are no tokens that you may see.")


def _document(token: TokenState) -> dict[str, Any]:
    return {
        "token": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued": format_time(token.issued_ms),
        "expires": format_time(token.expires_ms),
        "ends": format_time(token.latest_ms),
    }
