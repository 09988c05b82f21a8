"""A directory with an authority and all certificates that it has signed.

    ca.pem, ca.key        the authority; the key signs, and is needed nowhere else
    trusted.pem           the authorities to trust: one, and two during a rotation      ssl.truststore.location
    crl.pem               their revocation lists                                         penstock.ssl.crl.location
    NAME.pem              a private key with its certificate                             ssl.keystore.location
    index.json            what was signed, for whom, until when, and what was revoked
    previous.pem, .key    the authority before, from the beginning of a rotation to its end

Only their owner can read the files (0600). They are replaced, never rewritten: a broker that reads one while it
changes sees the old one or the new one.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from penstock.security.certificates.authority import (
    LEAF_LIFE,
    Authority,
    BadRequestError,
    PrivateKey,
    PublicKey,
    Revoked,
    Wanted,
    certificate_pem,
    check_hosts,
    create_authority,
    issue,
    key_pem,
    new_key,
    read_request,
    revocation_list,
)
from penstock.security.private_files import write_private

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_RESERVED = frozenset({"ca", "trusted", "crl", "index", "previous"})


class CertificatesError(Exception):
    """The request cannot be done; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the index."""

    serial: str  # hexadecimal
    name: str
    kind: str
    hosts: tuple[str, ...]
    organization: str | None
    valid_until: str
    authority: str  # serial of the authority, hexadecimal
    has_key: bool
    revoked_at: str | None = None

    def expires(self) -> datetime.datetime:
        return datetime.datetime.fromisoformat(self.valid_until)


class CertificateDirectory:
    def __init__(self, path: Path, now: datetime.datetime) -> None:
        """`now` is the time of every certificate and list that this object signs."""
        self.path = path
        self._now = now.replace(microsecond=0)

    # -------------------------------------------------------------------------------------------- files

    def file(self, name: str) -> Path:
        return self.path / f"{name}.pem"

    @property
    def trusted(self) -> Path:
        return self.file("trusted")

    @property
    def revocations(self) -> Path:
        return self.file("crl")

    @property
    def is_there(self) -> bool:
        return self.file("ca").exists()

    def entries(self) -> list[Entry]:
        try:
            document = json.loads((self.path / "index.json").read_text())
        except FileNotFoundError:
            raise self._missing() from None
        except (OSError, ValueError) as error:
            raise CertificatesError(f"{self.path / 'index.json'} cannot be read: {error}") from error
        return [Entry(**{**each, "hosts": tuple(each["hosts"])}) for each in document["certificates"]]

    def current(self) -> list[Entry]:
        """The latest certificate of each name, unless it is revoked."""
        latest = {entry.name: entry for entry in self.entries()}
        return [entry for entry in latest.values() if entry.revoked_at is None]

    # -------------------------------------------------------------------------------------------- authority

    def create(self, name: str = "Penstock CA") -> Path:
        if self.is_there:
            raise CertificatesError(f"{self.path} has an authority already; `rotate --ca` replaces it")
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            authority = create_authority(name, self._now)
            self._write_authority("ca", authority)
            self._write_index([])
            self._write_trust([])
        return self.file("ca")

    def authority(self, name: str = "ca") -> Authority:
        try:
            certificate = x509.load_pem_x509_certificate(self.file(name).read_bytes())
            key = load_pem_private_key((self.path / f"{name}.key").read_bytes(), None)
        except FileNotFoundError:
            raise self._missing() from None
        except (OSError, ValueError) as error:
            raise CertificatesError(f"the authority in {self.path} cannot be read: {error}") from error
        assert isinstance(key, PrivateKey), "`create` makes keys of this kind alone"
        if key.public_key() != certificate.public_key():  # no peer would trust a certificate signed by it
            raise CertificatesError(
                f"{name}.key does not belong to {name}.pem in {self.path}: a rotation was cut short. Copy previous.key "
                "over ca.key and previous.pem over ca.pem, remove both previous files, and rotate again"
            )
        return Authority(certificate, key)

    # -------------------------------------------------------------------------------------------- leaves

    def issue(self, wanted: Wanted, life: datetime.timedelta = LEAF_LIFE) -> Entry:
        """A new key and its certificate, in one file that is named after it."""
        _check_wanted(wanted)
        with self._locked():
            if any(entry.name == wanted.name for entry in self.current()):
                raise CertificatesError(f"{wanted.name} has a certificate already; `renew` makes a new one")
            return self._issue(wanted, life)

    def sign(self, request: bytes, wanted: Wanted, life: datetime.timedelta = LEAF_LIFE) -> Entry:
        """A certificate for a key that stays with its owner. Of the request only the key counts, and for a broker the
        host names, where `wanted` has none.
        """
        try:
            key, hosts = read_request(request)
        except BadRequestError as error:
            raise CertificatesError(f"the request cannot be signed: {error}") from error
        if wanted.kind == "broker" and not wanted.hosts:
            wanted = wanted._replace(hosts=hosts)
        _check_wanted(wanted)
        with self._locked():
            certificate, entry = self._sign(wanted, key, life, has_key=False)
            self._write(self.file(wanted.name), certificate_pem(certificate))
            self._write_index([*self.entries(), entry])
            return entry

    def renew(self, names: Sequence[str], life: datetime.timedelta = LEAF_LIFE) -> list[Entry]:
        """New keys and certificates for the same names. The ones before stay valid until they expire."""
        with self._locked():
            found = {entry.name: entry for entry in self.current()}
            for name in names:
                if name not in found:
                    raise CertificatesError(f"{name} has no certificate here; `list` shows what there is")
                if not found[name].has_key:
                    raise CertificatesError(f"the key of {name} is elsewhere; `sign` a new request of its owner")
            return [self._issue(_wanted(found[name]), life) for name in names]

    def revoke(self, name: str) -> list[Entry]:
        """Every certificate of that name that has not expired."""
        with self._locked():
            entries = self.entries()
            stamp = self._now.isoformat()
            changed = [
                replace(entry, revoked_at=stamp)
                if entry.name == name and entry.revoked_at is None and entry.expires() > self._now
                else entry
                for entry in entries
            ]
            revoked = [new for old, new in zip(entries, changed, strict=True) if old is not new]
            if not revoked:
                raise CertificatesError(f"{name} has no valid certificate here; `list` shows what there is")
            self._write_index(changed)
            self._write_trust(changed)
            return revoked

    # ------------------------------------------------------------------------------- rotation of the authority

    def trust_new_authority(self, *, may_go_on: bool = False) -> bool:
        """First step: makes a new authority, trusted beside the old one, which signs from now on. With `may_go_on` an
        interrupted rotation is no error: its missing steps are done, and the result is False.
        """
        with self._locked():
            if self.file("previous").exists():
                if not may_go_on:
                    raise CertificatesError("a rotation is under way; `rotate --ca` goes on with it")
                if _lack_a_new_one(self._authorities()):
                    self._write_authority("ca", _successor(self.authority(), self._now))
                self._write_trust(self.entries())
                return False
            old = self.authority()
            self._write_authority("previous", old)
            self._write_authority("ca", _successor(old, self._now))
            self._write_trust(self.entries())
            return True

    def renew_all(self, life: datetime.timedelta = LEAF_LIFE) -> list[Entry]:
        """Second step: gives each name with a key here a certificate of the authority that signs now."""
        return self.renew([entry.name for entry in self.current() if entry.has_key], life)

    def drop_old_authority(self) -> None:
        """Last step: removes the old authority from the trusted ones."""
        with self._locked():
            if not self.file("previous").exists():
                raise CertificatesError("no rotation is under way; `rotate --ca` begins one")
            if _lack_a_new_one(self._authorities()):
                raise CertificatesError(
                    "the rotation was cut short before its first step; `rotate --ca` goes on with it"
                )
            serial = _serial(self.authority("previous").certificate)
            behind = sorted(entry.name for entry in self.current() if entry.authority == serial)
            if behind:
                raise CertificatesError(
                    f"{', '.join(behind)}: still certified by the old authority; `renew` or `sign` first"
                )
            self.file("previous").unlink()
            (self.path / "previous.key").unlink()
            self._write_trust(self.entries())

    # -------------------------------------------------------------------------------------------- inner

    def _issue(self, wanted: Wanted, life: datetime.timedelta) -> Entry:
        key = new_key()
        certificate, entry = self._sign(wanted, key.public_key(), life, has_key=True)
        self._write(self.file(wanted.name), key_pem(key) + certificate_pem(certificate))
        self._write_index([*self.entries(), entry])
        return entry

    def _sign(
        self, wanted: Wanted, key: PublicKey, life: datetime.timedelta, *, has_key: bool
    ) -> tuple[x509.Certificate, Entry]:
        authority = self.authority()
        if authority.certificate.not_valid_after_utc <= self._now:
            raise CertificatesError("the authority has expired; `rotate --ca` makes a new one")
        certificate = issue(authority, wanted, key, self._now, life)
        entry = Entry(
            _serial(certificate),
            wanted.name,
            wanted.kind,
            wanted.hosts,
            wanted.organization,
            certificate.not_valid_after_utc.isoformat(),
            _serial(authority.certificate),
            has_key,
        )
        return certificate, entry

    def _authorities(self) -> list[Authority]:
        names = ["ca", "previous"] if self.file("previous").exists() else ["ca"]
        return [self.authority(name) for name in names]

    def _write_trust(self, entries: Sequence[Entry]) -> None:
        """Revocation lists before authorities: a certificate whose authority has no list is refused."""
        lists = []
        authorities = self._authorities()
        for authority in authorities:
            serial = _serial(authority.certificate)
            revoked = [
                Revoked(int(entry.serial, 16), datetime.datetime.fromisoformat(entry.revoked_at))
                for entry in entries
                if entry.authority == serial and entry.revoked_at is not None
            ]
            lists.append(revocation_list(authority, revoked, self._now))
        self._write(self.revocations, "".join(lists))
        self._write(self.trusted, "".join(certificate_pem(each.certificate) for each in authorities))

    def _write_authority(self, name: str, authority: Authority) -> None:
        self._write(self.path / f"{name}.key", key_pem(authority.key))
        self._write(self.file(name), certificate_pem(authority.certificate))

    def _write_index(self, entries: Sequence[Entry]) -> None:
        document = {"version": 1, "certificates": [asdict(entry) for entry in entries]}
        self._write(self.path / "index.json", json.dumps(document, indent=1) + "\n")

    def _write(self, path: Path, text: str) -> None:
        write_private(path, text.encode())

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Without the lock, two commands at once would lose one of their certificates."""
        if not self.path.is_dir():
            raise self._missing()
        descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _missing(self) -> CertificatesError:
        return CertificatesError(f"{self.path} has no authority; `penstock certificates init-ca` makes one")


def _check_wanted(wanted: Wanted) -> None:
    if not _NAME.fullmatch(wanted.name) or wanted.name.lower() in _RESERVED:
        reserved = ", ".join(sorted(_RESERVED))
        raise CertificatesError(
            f"{wanted.name!r} cannot be a name: letters, digits, dots, dashes and underscores, and none of {reserved}"
        )
    if wanted.kind == "broker" and not wanted.hosts:
        raise CertificatesError("a broker's certificate needs the host names and addresses that clients connect to")
    try:
        check_hosts(wanted.hosts)
    except BadRequestError as error:
        raise CertificatesError(str(error)) from error


def _wanted(entry: Entry) -> Wanted:
    return Wanted(entry.kind, entry.name, entry.hosts, entry.organization)


def _lack_a_new_one(authorities: Sequence[Authority]) -> bool:
    """A rotation was killed after it had put the old authority aside, and before it made a new one."""
    return len({each.certificate.serial_number for each in authorities}) == 1


def _successor(old: Authority, now: datetime.datetime) -> Authority:
    name = old.certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value
    return create_authority(str(name), now)


def _serial(certificate: x509.Certificate) -> str:
    return f"{certificate.serial_number:x}"
