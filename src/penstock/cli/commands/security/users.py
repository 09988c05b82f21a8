"""`penstock users`: who can log in with a password (SCRAM)."""

from __future__ import annotations

import enum
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.security.users import (
    Left,
    User,
    count_left,
    list_users,
    remove_password,
    salt_passwords,
    set_password,
    write_first_user,
    write_password,
)
from penstock.cli.errors import CliError, UsageError
from penstock.cli.options import AsJson, Yes, confirm, on_cluster
from penstock.cli.text import plural
from penstock.core.words.secrets_seen import seen_by_all
from penstock.security.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS

app = typer.Typer(help="Add, change and remove users with passwords.", no_args_is_help=True, rich_markup_mode=None)


class Mechanism(enum.StrEnum):
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


Name = Annotated[str, typer.Argument(metavar="USER")]
Mechanisms = Annotated[
    list[Mechanism] | None,
    typer.Option(
        "--mechanism", "-m", metavar="NAME", help="SCRAM-SHA-256, SCRAM-SHA-512; may be repeated. [default: both]"
    ),
]
Password = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="The password. Others on this machine can see it; without, it is asked for."),
]
PasswordFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Read the password from there; - is standard input.")
]
Iterations = Annotated[
    int,
    typer.Option(
        metavar="N", min=MIN_ITERATIONS, max=MAX_ITERATIONS, help="More make a stolen credential harder to guess."
    ),
]


@dataclass(frozen=True, slots=True)
class PasswordOptions:
    """Where the password comes from, and how it is kept."""

    mechanism: Mechanisms = None
    password: Password = None
    password_file: PasswordFile = None
    iterations: Iterations = MIN_ITERATIONS

    @property
    def mechanisms(self) -> list[str]:
        return [each.value for each in self.mechanism or list(Mechanism)]

    def user(self, name: str) -> User:
        return User(name, tuple((mechanism, self.iterations) for mechanism in self.mechanisms))

    def read_password(self) -> str:
        if self.password is not None and self.password_file is not None:
            raise UsageError("--password and --password-file cannot go together")
        if self.password is not None:
            output.note(f"{seen_by_all('--password')} Leave it out to be asked, or give --password-file.")
            password = self.password
        elif self.password_file is not None:
            password = _read_file(self.password_file)
        elif sys.stdin.isatty():
            password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        else:
            raise UsageError("no password", "Give --password-file FILE; - reads it from standard input.")
        if not password:
            raise UsageError("the password is empty")
        return password


def _read_file(path: Path) -> str:
    try:
        return (sys.stdin.read() if str(path) == "-" else path.read_text()).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the password of {path} cannot be read: {error}") from error


@app.command()
@on_cluster
def add(
    cluster: ClusterClient,
    user: Name,
    chosen: PasswordOptions,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Of a single broker that does not run: where nobody can log in."),
    ] = None,
    first_users_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Into the file that a new cluster begins with: penstock.first.users.file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add a user with a password."""
    if data_dir is not None and first_users_file is not None:
        raise UsageError("--data-dir and --first-users-file cannot go together", "The first is for data that is there.")
    is_over_the_wire = data_dir is None and first_users_file is None
    if is_over_the_wire and list_users(cluster, [user]):
        raise CliError(f"user {user} is there already", f"`penstock users password {user}` sets another password.")
    passwords = salt_passwords(chosen.read_password(), chosen.mechanisms, chosen.iterations)
    if data_dir is not None:
        write_password(data_dir, user, passwords)
    elif first_users_file is not None:
        write_first_user(first_users_file, user, passwords)
    else:
        set_password(cluster, user, passwords)
    if as_json:
        output.print_json(_document(chosen.user(user)))
    else:
        output.note(f"User {user} can log in with {' and '.join(chosen.mechanisms)}.")


@app.command()
@on_cluster
def password(cluster: ClusterClient, user: Name, chosen: PasswordOptions, as_json: AsJson = False) -> None:
    """Set another password for a user."""
    if not list_users(cluster, [user]):
        raise CliError(f"there is no user {user}", f"`penstock users add {user}` adds one.")
    set_password(cluster, user, salt_passwords(chosen.read_password(), chosen.mechanisms, chosen.iterations))
    if as_json:
        output.print_json(_document(chosen.user(user)))
    else:
        output.note(f"User {user} has another password for {' and '.join(chosen.mechanisms)}.")


@app.command()
@on_cluster
def remove(
    cluster: ClusterClient, user: Name, mechanism: Mechanisms = None, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Take a user's passwords away; open connections, tokens and ACLs stay, and it is told how to end them."""
    found = list_users(cluster, [user])
    if not found:
        raise CliError(f"there is no user {user}", "`penstock users list` shows them.")
    known = [name for name, _ in found[0].credentials]
    removed = [each.value for each in mechanism] if mechanism else known
    confirm(f"Remove the password of {user} for {' and '.join(removed)}?", yes)
    remove_password(cluster, user, removed)
    kept = [name for name in known if name not in removed]
    left = count_left(cluster, user)
    if as_json:
        output.print_json({"user": user, "removed": removed, "mechanisms": kept, **left._asdict()})
        return
    output.note(f"User {user} can no longer log in with {' and '.join(removed)}.")
    for line in _what_is_left(user, kept, left):
        output.note(line)


def _what_is_left(user: str, kept: list[str], left: Left) -> Iterator[str]:
    """Nobody should take a removed password for the end of all rights."""
    if kept:
        yield f"It still can with {' and '.join(kept)}."
        return
    name = shlex.quote(f"User:{user}")
    yield (
        "Connections that are open keep their rights until they end, or until connections.max.reauth.ms has passed; to"
        f" take those away now: penstock acls add --deny --principal {name} --topic '*' --group '*'"
        " --transactional-id '*' --cluster"
    )
    if left.tokens != 0:
        count = "perhaps delegation tokens" if left.tokens is None else plural(left.tokens, "delegation token")
        yield f"The user still has {count} to log in with: penstock tokens list --owner {name}, then tokens expire."
    if left.acls:
        yield f"The user still has {plural(left.acls, 'ACL')}: penstock acls list --principal {name}"


@app.command("list")
@on_cluster
def list_all(cluster: ClusterClient, as_json: AsJson = False) -> None:
    """Show the users that have a password."""
    users = list_users(cluster)
    if as_json:
        output.print_json([_document(user) for user in users])
        return
    table = output.Table(("USER", "MECHANISM", ">ITERATIONS"))
    for user in users:
        for mechanism, iterations in user.credentials:
            table.add(user.name, mechanism, iterations)
    output.print_table(table, "No user has a password; `penstock users add` adds one.")


def _document(user: User) -> dict[str, object]:
    return {"user": user.name, "mechanisms": [{"name": name, "iterations": count} for name, count in user.credentials]}
