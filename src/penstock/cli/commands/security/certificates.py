"""`penstock certificates`: a private authority, and certificates for brokers and clients."""

from __future__ import annotations

import contextlib
import datetime
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import output
from penstock.cli.errors import CliError, UsageError
from penstock.cli.options import AsJson, Yes, confirm, read_text
from penstock.cli.text import plural
from penstock.cli.views.certificates import certificate_document, certificate_table

if TYPE_CHECKING:
    from penstock.security.certificates.directory import CertificateDirectory, Entry

app = typer.Typer(help="Make, renew and revoke certificates.", no_args_is_help=True, rich_markup_mode=None)
issue_app = typer.Typer(help="Make a key and its certificate.", no_args_is_help=True, rich_markup_mode=None)
export_app = typer.Typer(
    help="Write keys and certificates in other formats.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(issue_app, name="issue")
app.add_typer(export_app, name="export")

Directory = Annotated[
    Path, typer.Option("--directory", "-d", metavar="DIR", help="Where the authority and its certificates are.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The common name, and the name of the file.")]
Host = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="HOST", help="A host name or an address that clients connect to; several times."),
]
Days = Annotated[int, typer.Option(metavar="N", min=1, help="How long the certificate is valid.")]
Organization = Annotated[str | None, typer.Option(metavar="NAME", help="Goes into the certificate as O=NAME.")]
To = Annotated[Path, typer.Option("--to", metavar="FILE", help="The file to write.")]
PasswordFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The password of the new file is its first line.  [default: asked]")
]

_DEFAULT_DIRECTORY = Path("certificates")
_DAYS = 90
# Brokers look at their files every five seconds; a busy machine may take longer, and so may a network file system.
_SETTLE_SECONDS = 20.0


@app.command("init-ca")
def init_ca(
    directory: Directory = _DEFAULT_DIRECTORY,
    name: Annotated[str, typer.Option(metavar="NAME", help="The authority's common name.")] = "Penstock CA",
    as_json: AsJson = False,
) -> None:
    """Make the authority that signs the certificates. Its key signs for ten years: keep ca.key safe."""
    with _opened(directory) as certificates:
        path = certificates.create(name)
        document = {"authority": str(path), "trusted": str(certificates.trusted), "crl": str(certificates.revocations)}
    if as_json:
        output.print_json(document)
    else:
        output.say(f"Made the authority {path}. Clients and brokers trust {document['trusted']}.")


@issue_app.command("broker")
def issue_broker(
    name: Name,
    host: Host = None,
    directory: Directory = _DEFAULT_DIRECTORY,
    days: Days = _DAYS,
    organization: Organization = None,
    as_json: AsJson = False,
) -> None:
    """For a broker, which is a server and a client of other brokers."""
    _issue("broker", name, host or [], directory, days, organization, as_json)


@issue_app.command("client")
def issue_client(
    name: Name,
    directory: Directory = _DEFAULT_DIRECTORY,
    days: Days = _DAYS,
    organization: Organization = None,
    as_json: AsJson = False,
) -> None:
    """For a client; the broker knows it as User:CN=NAME."""
    _issue("client", name, [], directory, days, organization, as_json)


@app.command()
def sign(
    request: Annotated[Path, typer.Argument(metavar="CSR", help="The signing request, as PEM.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="The common name of the certificate.")],
    kind: Annotated[str, typer.Option(metavar="KIND", help="broker or client.")] = "client",
    host: Host = None,
    directory: Directory = _DEFAULT_DIRECTORY,
    days: Days = _DAYS,
    as_json: AsJson = False,
) -> None:
    """Sign a request whose key stays with its owner. Only its key counts, and a broker's host names."""
    from penstock.security.certificates.authority import KINDS, Wanted

    if kind not in KINDS:
        raise UsageError(f"--kind {kind}: it is one of {', '.join(KINDS)}")
    try:
        data = request.read_bytes()
    except OSError as error:
        raise CliError(f"cannot read {request}: {error.strerror}") from error
    with _opened(directory) as certificates:
        entry = certificates.sign(data, Wanted(kind, name, tuple(host or ())), _life(days))
        _show([entry], certificates, as_json, "Signed")


@app.command()
def renew(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Whose certificates.")] = None,
    within: Annotated[
        int | None, typer.Option(metavar="DAYS", min=0, help="All that end within so many days, instead of names.")
    ] = None,
    directory: Directory = _DEFAULT_DIRECTORY,
    days: Days = _DAYS,
    as_json: AsJson = False,
) -> None:
    """Make new keys and certificates for the same names. Brokers that run pick them up by themselves."""
    if bool(names) == (within is not None):
        raise UsageError("name certificates, or give --within DAYS")
    with _opened(directory) as certificates:
        chosen = list(names or ())
        if within is not None:
            limit = _now() + datetime.timedelta(days=within)
            chosen = [entry.name for entry in certificates.current() if entry.has_key and entry.expires() <= limit]
        _show(certificates.renew(chosen, _life(days)), certificates, as_json, "Renewed")
    if not chosen and not as_json:
        output.note(f"Nothing to renew: no certificate ends within {plural(within or 0, 'day')}.")


@app.command()
def revoke(name: Name, directory: Directory = _DEFAULT_DIRECTORY, yes: Yes = False, as_json: AsJson = False) -> None:
    """Put all certificates of a name on the revocation list, crl.pem. Brokers that run pick it up by themselves."""
    with _opened(directory) as certificates:
        confirm(f"Revoke the certificates of {name}?", yes)
        _show(certificates.revoke(name), certificates, as_json, "Revoked")


@app.command("list")
def list_certificates(
    directory: Directory = _DEFAULT_DIRECTORY,
    every: Annotated[
        bool, typer.Option("--all", help="Also those that were renewed, have ended or are revoked.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List what was signed, and for how long it is valid."""
    with _opened(directory) as certificates:
        entries = certificates.entries() if every else certificates.current()
    if as_json:
        output.print_json([certificate_document(entry, certificates.file(entry.name)) for entry in entries])
    else:
        output.print_table(certificate_table(entries, _now()), "Nothing was signed yet; `issue` makes certificates.")


@export_app.command("pem")
def export_pem(
    name: Name,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Where NAME.key, NAME.crt and ca.crt go.")],
    directory: Directory = _DEFAULT_DIRECTORY,
    as_json: AsJson = False,
) -> None:
    """Key, certificate and authority as three files."""
    from penstock.security.certificates.key_files import split_pem

    with _opened(directory) as certificates:
        files = split_pem(_read(certificates, name))
        to.mkdir(parents=True, exist_ok=True)
        written = {to / f"{name}.key": files.key, to / f"{name}.crt": files.certificate}
        written[to / "ca.crt"] = certificates.trusted.read_bytes()
        _write(written, as_json)


@export_app.command("pkcs12")
def export_pkcs12(
    name: Name,
    to: To,
    directory: Directory = _DEFAULT_DIRECTORY,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """Key and certificate as a PKCS12 key store, which Java reads."""
    from penstock.security.certificates.key_files import to_pkcs12

    with _opened(directory) as certificates:
        both = _read(certificates, name)
        store = to_pkcs12(name, both, certificates.trusted.read_bytes(), _password(password_file))
        _write({to: store}, as_json)


@export_app.command("truststore")
def export_truststore(
    to: To,
    directory: Directory = _DEFAULT_DIRECTORY,
    password_file: PasswordFile = None,
    as_json: AsJson = False,
) -> None:
    """The trusted authorities: PEM where FILE ends with .pem or .crt, else PKCS12 as Java wants it."""
    from penstock.security.certificates.key_files import to_java_truststore

    with _opened(directory) as certificates:
        authorities = certificates.trusted.read_bytes() if certificates.is_there else _read(certificates, "trusted")
        is_pem = to.suffix in (".pem", ".crt")
        _write({to: authorities if is_pem else to_java_truststore(authorities, _password(password_file))}, as_json)


@app.command()
def rotate(
    directory: Directory = _DEFAULT_DIRECTORY,
    authority: Annotated[bool, typer.Option("--ca", help="Replace the authority, too.")] = False,
    step: Annotated[
        str | None,
        typer.Option(
            metavar="STEP", help="Only one step of --ca: trust (both authorities), renew (all), drop (the old)."
        ),
    ] = None,
    settle: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="How long brokers and clients get to pick up each step.")
    ] = _SETTLE_SECONDS,
    days: Days = _DAYS,
    as_json: AsJson = False,
) -> None:
    """Renew everything; with --ca also the authority, in three steps, so that nobody is refused at any time.

    Run it again after an interruption: it goes on.
    """
    steps = ["trust", "renew", "drop"] if authority else ["renew"]
    if step is not None and (not authority or step not in steps):
        raise UsageError("--step goes with --ca, and is one of trust, renew, drop")
    with _opened(directory) as certificates:
        done: list[dict[str, object]] = []
        for each in [step] if step is not None else steps:
            if done:
                output.note(f"Waiting {settle:g} s for brokers and clients to see that.")
                time.sleep(settle)
            done.append({"step": each, "renewed": _rotate(certificates, each, days, is_all=step is None)})
    if as_json:
        output.print_json(done)


def _rotate(certificates: CertificateDirectory, step: str, days: int, *, is_all: bool) -> list[str]:
    if step == "trust":
        is_new = certificates.trust_new_authority(may_go_on=is_all)
        beginning = "A new authority signs from now on" if is_new else "A rotation was interrupted, and goes on"
        output.note(f"{beginning}: both are trusted.")
        return []
    if step == "drop":
        certificates.drop_old_authority()
        output.note("The old authority is trusted no more.")
        return []
    renewed = certificates.renew_all(_life(days))
    output.note(f"Renewed {plural(len(renewed), 'certificate')}.")
    return [entry.name for entry in renewed]


# ---------------------------------------------------------------------------------- what the commands share


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[CertificateDirectory]:
    from penstock.security.certificates.directory import CertificateDirectory, CertificatesError

    try:
        yield CertificateDirectory(path, _now())
    except CertificatesError as error:
        raise CliError(str(error)) from error
    except OSError as error:
        raise CliError(
            f"{error.filename or path}: {error.strerror}", "Check --directory and its permissions."
        ) from error


def _issue(
    kind: str, name: str, hosts: Sequence[str], path: Path, days: int, organization: str | None, as_json: bool
) -> None:
    from penstock.security.certificates.authority import Wanted

    with _opened(path) as certificates:
        entry = certificates.issue(Wanted(kind, name, tuple(hosts), organization), _life(days))
        _show([entry], certificates, as_json, "Made")


def _show(entries: Sequence[Entry], certificates: CertificateDirectory, as_json: bool, done: str) -> None:
    if as_json:
        output.print_json([certificate_document(entry, certificates.file(entry.name)) for entry in entries])
        return
    for entry in entries:
        until = entry.expires().date().isoformat()
        output.say(f"{done} {certificates.file(entry.name)} ({entry.kind}, until {until}).")


def _read(certificates: CertificateDirectory, name: str) -> bytes:
    if not any(entry.name == name and entry.has_key for entry in certificates.current()):
        raise CliError(f"{name} has no key and certificate here", "`penstock certificates list` shows what there is.")
    return certificates.file(name).read_bytes()


def _write(files: dict[Path, bytes], as_json: bool) -> None:
    from penstock.security.private_files import write_private

    for path, data in files.items():
        write_private(path, data)
    if as_json:
        output.print_json([str(path) for path in files])
    else:
        output.say(f"Wrote {', '.join(map(str, files))}.")


def _password(file: Path | None) -> str:
    if file is not None:
        password = read_text(str(file)).partition("\n")[0]
    elif sys.stdin.isatty():
        password = typer.prompt("Password of the new file", hide_input=True, confirmation_prompt=True)
    else:
        raise UsageError("the new file needs a password", "Give --password-file FILE.")
    if not password:
        raise UsageError("the password is empty")
    return str(password)


def _life(days: int) -> datetime.timedelta:
    return datetime.timedelta(days=days)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
