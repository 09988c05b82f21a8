"""`penstock certificates`, from an empty directory to a rotated authority."""

from __future__ import annotations

import datetime
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding

from penstock.security.certificates.authority import new_key
from penstock.security.tls.contexts import load_client, load_server, shake_hands
from penstock.security.tls.settings import TlsSettings
from tests.clients.cli_runner import Cli

CLI = Cli("")


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path / "certificates"

    def run(self, *arguments: str) -> Any:
        result = CLI.run("certificates", *arguments, "--directory", str(self.path), "--json")
        return result.json if result.out else None

    def refusal(self, *arguments: str) -> str:
        result = CLI.try_run("certificates", *arguments, "--directory", str(self.path))
        assert result.code != 0
        return result.err

    def shake_hands(self, client: str, broker: str = "b1", trusted: str | None = None) -> None:
        """A handshake with the files that are there now; `trusted` is what the broker trusts, if not the same."""
        stores = {
            "ssl.truststore.location": str(self.path / "trusted.pem"),
            "ssl.endpoint.identification.algorithm": "",
        }
        own = {**stores, "ssl.keystore.location": str(self.path / f"{broker}.pem"), "ssl.client.auth": "required"}
        own["penstock.ssl.crl.location"] = str(self.path / "crl.pem")
        other = {**stores, "ssl.keystore.location": client}
        server = load_server(TlsSettings.of_properties(own))
        shake_hands(server.context, load_client(TlsSettings.of_properties(other)))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.run("init-ca")
    folder.run("issue", "broker", "b1", "--host", "localhost", "--host", "127.0.0.1")
    folder.run("issue", "client", "alice", "--organization", "Acme")
    return folder


def test_sides_shake_hands_when_their_certificates_were_issued(folder: Folder) -> None:
    folder.shake_hands(str(folder.path / "alice.pem"))


def test_files_are_for_their_owner_alone_when_they_are_written(folder: Folder, tmp_path: Path) -> None:
    folder.run("export", "pem", "alice", "--to", str(tmp_path / "exported"))
    files = [each for each in (*folder.path.iterdir(), *(tmp_path / "exported").iterdir()) if each.is_file()]
    assert len(files) >= 9
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_certificates_are_as_they_should_be_when_they_are_issued(folder: Folder) -> None:
    authority = x509.load_pem_x509_certificate((folder.path / "ca.pem").read_bytes())
    broker = x509.load_pem_x509_certificate((folder.path / "b1.pem").read_bytes())
    client = x509.load_pem_x509_certificate((folder.path / "alice.pem").read_bytes())
    bits = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (bits.ca, bits.path_length) == (True, 0)
    now = datetime.datetime.now(datetime.UTC)
    assert broker.not_valid_before_utc < now - datetime.timedelta(minutes=4)
    assert 89 <= (broker.not_valid_after_utc - now).days <= 90
    purposes = [
        [use._name for use in each.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value]
        for each in (broker, client)
    ]
    assert purposes == [["serverAuth", "clientAuth"], ["clientAuth"]]
    assert client.subject.rfc4514_string() == "CN=alice,O=Acme"
    assert not client.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_certificate_is_refused_when_it_was_revoked(folder: Folder) -> None:
    folder.run("revoke", "alice", "--yes")
    with pytest.raises(ssl.SSLError, match="revoked"):
        folder.shake_hands(str(folder.path / "alice.pem"))
    assert [each["name"] for each in folder.run("list")] == ["b1"]
    (revoked,) = [each for each in folder.run("list", "--all") if each["revoked_at"]]
    assert revoked["name"] == "alice"
    assert "revoked" in CLI.run("certificates", "list", "--all", "-d", str(folder.path)).text
    folder.run("issue", "client", "alice")
    folder.shake_hands(str(folder.path / "alice.pem"))


def test_both_certificates_are_good_when_one_was_renewed(folder: Folder, tmp_path: Path) -> None:
    before = tmp_path / "before.pem"
    before.write_bytes((folder.path / "alice.pem").read_bytes())
    folder.run("renew", "alice")
    assert before.read_bytes() != (folder.path / "alice.pem").read_bytes()
    for file in (before, folder.path / "alice.pem"):
        folder.shake_hands(str(file))
    assert folder.run("renew", "--within", "10") == []
    told = CLI.run("certificates", "renew", "--within", "10", "-d", str(folder.path)).err
    assert "no certificate ends within 10 days" in told
    assert [each["name"] for each in folder.run("renew", "--within", "91")] == ["b1", "alice"]


def test_nobody_is_refused_when_the_authority_is_rotated_step_by_step(folder: Folder, tmp_path: Path) -> None:
    old = tmp_path / "old.pem"
    old.write_bytes((folder.path / "alice.pem").read_bytes())
    folder.run("rotate", "--ca", "--step", "trust")
    folder.shake_hands(str(old))
    assert "still certified by the old authority" in folder.refusal("rotate", "--ca", "--step", "drop")
    folder.run("rotate", "--ca", "--step", "renew")
    folder.shake_hands(str(old))
    folder.shake_hands(str(folder.path / "alice.pem"))
    folder.run("rotate", "--ca", "--step", "drop")
    folder.shake_hands(str(folder.path / "alice.pem"))
    with pytest.raises(ssl.SSLError):
        folder.shake_hands(str(old))


def test_nothing_is_signed_and_the_way_out_is_told_when_a_rotation_was_cut_short(folder: Folder) -> None:
    """Between the new key and the new certificate."""
    old = {name: (folder.path / f"ca.{name}").read_bytes() for name in ("pem", "key")}
    folder.run("rotate", "--ca", "--step", "trust")
    (folder.path / "ca.pem").write_bytes(old["pem"])
    assert "previous.key" in folder.refusal("issue", "client", "bob")
    for name, data in old.items():
        assert (folder.path / f"previous.{name}").read_bytes() == data
        (folder.path / f"previous.{name}").replace(folder.path / f"ca.{name}")
    folder.run("issue", "client", "bob")
    folder.run("rotate", "--ca", "--settle", "0")
    folder.shake_hands(str(folder.path / "bob.pem"))


def test_authority_is_another_when_it_is_rotated_at_once(folder: Folder) -> None:
    before = (folder.path / "trusted.pem").read_bytes()
    assert [each["step"] for each in folder.run("rotate", "--ca", "--settle", "0")] == ["trust", "renew", "drop"]
    assert (folder.path / "trusted.pem").read_bytes() != before
    folder.shake_hands(str(folder.path / "alice.pem"))


def test_rotation_goes_on_when_the_one_before_was_interrupted(folder: Folder) -> None:
    old = (folder.path / "trusted.pem").read_bytes()
    folder.run("rotate", "--ca", "--step", "trust")
    new = (folder.path / "ca.pem").read_bytes()
    (folder.path / "trusted.pem").write_bytes(old)  # as if it had ended before this was written
    assert "goes on with it" in folder.refusal("rotate", "--ca", "--step", "trust")
    folder.run("rotate", "--ca", "--settle", "0")
    assert (folder.path / "trusted.pem").read_bytes() == new
    folder.shake_hands(str(folder.path / "alice.pem"))


@pytest.mark.parametrize("has_certificates", [True, False])
def test_rotation_makes_an_authority_when_the_one_before_was_killed_before_it_did(
    tmp_path: Path, has_certificates: bool
) -> None:
    folder = Folder(tmp_path)
    folder.run("init-ca")
    if has_certificates:
        folder.run("issue", "broker", "b1", "--host", "localhost")
    old = (folder.path / "ca.pem").read_bytes()
    for name in ("ca.key", "ca.pem"):  # the first that a rotation writes
        (folder.path / name.replace("ca", "previous")).write_bytes((folder.path / name).read_bytes())
    assert "cut short" in folder.refusal("rotate", "--ca", "--step", "drop")
    folder.run("rotate", "--ca", "--settle", "0")
    assert (folder.path / "trusted.pem").read_bytes() == (folder.path / "ca.pem").read_bytes() != old
    assert not (folder.path / "previous.pem").exists()
    if has_certificates:
        folder.shake_hands(str(folder.path / "b1.pem"))


def request_of(*names: x509.GeneralName, key: Any = None, ca: bool = False) -> bytes:
    key = key or new_key()
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "somebody else")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def test_only_key_and_hosts_are_taken_when_a_request_asks_for_more(folder: Folder, tmp_path: Path) -> None:
    request = tmp_path / "request.csr"
    request.write_bytes(request_of(x509.DNSName("b2.example"), ca=True))
    (entry,) = folder.run("sign", str(request), "--name", "b2", "--kind", "broker")
    assert entry["hosts"] == ["b2.example"]
    signed = x509.load_pem_x509_certificate((folder.path / "b2.pem").read_bytes())
    assert not signed.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert signed.subject.rfc4514_string() == "CN=b2"
    assert "the key of b2 is elsewhere" in folder.refusal("renew", "b2")


def test_request_is_refused_when_it_must_not_be_signed(folder: Folder, tmp_path: Path) -> None:
    request = tmp_path / "request.csr"
    weak = rsa.generate_private_key(65_537, 1024)
    damaged = bytearray(request_of())
    damaged[-60] ^= 1
    for data, words in (
        (request_of(key=weak), "too weak"),
        (b"rubbish", "no signing request"),
        (bytes(damaged), "request"),
    ):
        request.write_bytes(data)
        assert words in folder.refusal("sign", str(request), "--name", "x")


@pytest.mark.parametrize("name", ["../evil", "ca", "a/b", ".hidden", "a b", "x" * 65])
def test_name_is_refused_when_it_is_no_file_name(folder: Folder, name: str) -> None:
    assert "cannot be a name" in folder.refusal("issue", "client", name)


def test_command_says_what_to_do_when_something_is_missing(folder: Folder, tmp_path: Path) -> None:
    assert "init-ca" in Folder(tmp_path / "elsewhere").refusal("list")
    assert "has an authority already" in folder.refusal("init-ca")
    assert "renew" in folder.refusal("issue", "client", "alice")
    assert "host names and addresses" in folder.refusal("issue", "broker", "b9")
    assert "list" in folder.refusal("revoke", "nobody", "--yes")
    assert "--password-file" in folder.refusal("export", "pkcs12", "alice", "--to", str(tmp_path / "a.p12"))


def test_stores_are_read_again_when_they_were_exported(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("changeit-77\n")
    given = ["--password-file", str(tmp_path / "password")]
    folder.run("export", "pkcs12", "alice", "--to", str(tmp_path / "alice.p12"), *given)
    folder.run("export", "truststore", "--to", str(tmp_path / "trust.p12"), *given)
    folder.run("export", "truststore", "--to", str(tmp_path / "trust.pem"))
    assert (tmp_path / "trust.pem").read_bytes() == (folder.path / "trusted.pem").read_bytes()
    stores = {
        "ssl.keystore.location": str(tmp_path / "alice.p12"), "ssl.keystore.password": "changeit-77",
        "ssl.truststore.location": str(tmp_path / "trust.p12"), "ssl.truststore.password": "changeit-77",
        "ssl.truststore.type": "PKCS12", "ssl.keystore.type": "PKCS12", "ssl.endpoint.identification.algorithm": "",
    }  # fmt: skip
    own = {
        "ssl.keystore.location": str(folder.path / "b1.pem"),
        "ssl.truststore.location": str(folder.path / "trusted.pem"),
    }
    server = load_server(TlsSettings.of_properties({**own, "ssl.client.auth": "required"}))
    shake_hands(server.context, load_client(TlsSettings.of_properties(stores)))
