"""The client of a registry: what it asks, what it keeps, and what it does when registries are in trouble."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from penstock.client.registry import (
    CacheLimits,
    NewSchema,
    RegistryAnswerError,
    RegistryClient,
    RegistrySettings,
    RegistryUnreachableError,
    SchemaReference,
)
from penstock.client.registry.transport import RegistryTransport
from penstock.client.retries import RetryPolicy
from penstock.security.tls.contexts import load_server
from penstock.security.tls.settings import TlsSettings
from tests.certificates import broker_settings, new_directory
from tests.fake_registry import CUT_OFF, FakeRegistry, running_registry

STRING = NewSchema('"string"')


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with running_registry() as running:
        yield running


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def client(registry: FakeRegistry, clock: Time) -> Iterator[RegistryClient]:
    with open_client(registry.url, clock) as opened:
        yield opened


def open_client(urls: str, clock: Time | None = None, properties: Mapping[str, str] | None = None) -> RegistryClient:
    named = {name.replace("_", "."): value for name, value in (properties or {}).items()}
    settings = RegistrySettings.of_properties({"schema.registry.url": urls, **named})
    retries = RetryPolicy(patience_s=0, first_pause_s=0, longest_pause_s=0, attempts=3)
    return RegistryClient(
        settings, CacheLimits(), clock=clock or Time(), transport=RegistryTransport(settings, retries=retries)
    )


def test_an_id_is_asked_for_once_when_it_is_needed_often(registry: FakeRegistry, client: RegistryClient) -> None:
    schema_id = client.register("s", STRING).id
    assert schema_id == 1
    assert client.peek_by_id(1) is None
    assert {client.schema_by_id(1).text for _ in range(3)} == {'"string"'}
    assert client.peek_by_id(1) is not None
    assert registry.asked.count("GET /schemas/ids/1") == 1


def test_latest_is_asked_again_when_some_seconds_have_passed(
    registry: FakeRegistry, client: RegistryClient, clock: Time
) -> None:
    client.register("s", STRING)
    assert client.latest("s").version == 1
    client.register("s", NewSchema('"int"'))
    assert client.latest("s").version == 1
    clock.now += 6
    assert client.peek_latest("s") is None
    assert client.latest("s").version == 2


def test_a_refusal_is_kept_for_a_moment_when_there_is_no_such_schema(
    registry: FakeRegistry, client: RegistryClient, clock: Time
) -> None:
    for _ in range(3):
        with pytest.raises(RegistryAnswerError) as refused:
            client.schema_by_id(7)
    assert (refused.value.status, refused.value.code, refused.value.message) == (404, 40403, "Schema not found")
    with pytest.raises(RegistryAnswerError):
        client.peek_by_id(7)
    assert registry.asked == ["GET /schemas/ids/7"]
    clock.now += 2
    assert client.peek_by_id(7) is None


def test_subjects_keep_their_slashes_and_spaces_when_they_are_asked_for(
    registry: FakeRegistry, client: RegistryClient
) -> None:
    client.register("a/b c?d%2F", STRING)
    assert client.administration.subjects() == ["a/b c?d%2F"]
    assert client.latest("a/b c?d%2F").subject == "a/b c?d%2F"


def test_an_id_belongs_to_a_subject_when_a_version_has_it(registry: FakeRegistry, client: RegistryClient) -> None:
    client.register("s", STRING)
    assert client.is_id_of(1, "s")
    assert not client.is_id_of(1, "other")
    assert not client.is_id_of(99, "s")


def test_references_come_after_what_they_need_when_they_refer_to_others(
    registry: FakeRegistry, client: RegistryClient
) -> None:
    client.register("c", NewSchema("C"))
    client.register("b", NewSchema("B", references=(SchemaReference("c", "c", 1),)))
    main = NewSchema("A", references=(SchemaReference("b", "b", 1), SchemaReference("c", "c", 1)))
    assert [each.name for each in client.referenced(main)] == ["c", "b"]


def test_references_end_when_schemas_refer_to_each_other(registry: FakeRegistry, client: RegistryClient) -> None:
    client.register("a", NewSchema("A", references=(SchemaReference("b", "b", 1),)))
    client.register("b", NewSchema("B", references=(SchemaReference("a", "a", 1),)))
    assert len(client.referenced(client.version("a", 1).schema)) == 2


def test_the_next_registry_is_asked_when_the_first_is_away(registry: FakeRegistry) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with open_client(f"http://127.0.0.1:{port},{registry.url}") as client:
        assert client.register("s", STRING).id == 1
        assert client.latest("s").id == 1


def test_reads_are_repeated_when_a_registry_has_trouble(registry: FakeRegistry, client: RegistryClient) -> None:
    client.register("s", STRING)
    registry.failures[:] = [500, None]
    assert client.schema_by_id(1).text == '"string"'


def test_the_trouble_is_told_when_it_does_not_pass(registry: FakeRegistry, client: RegistryClient) -> None:
    registry.failures[:] = [500] * 3
    with pytest.raises(RegistryAnswerError) as refused:
        client.schema_by_id(1)
    assert (refused.value.status, refused.value.code) == (500, 50002)
    registry.failures[:] = [None] * 6
    with pytest.raises(RegistryUnreachableError, match=registry.url):
        client.schema_by_id(1)


def test_a_read_is_repeated_when_its_answer_ends_too_early(registry: FakeRegistry, client: RegistryClient) -> None:
    client.register("s", STRING)
    registry.failures[:] = [CUT_OFF, CUT_OFF]
    assert client.schema_by_id(1).text == '"string"'
    assert registry.failures == []


def test_a_deletion_is_asked_once_when_its_answer_is_lost(registry: FakeRegistry, client: RegistryClient) -> None:
    registry.failures[:] = [None, 500]
    with pytest.raises(RegistryUnreachableError):
        client.administration.delete_subject("s")
    assert registry.failures == [500]


def test_a_kept_connection_is_replaced_when_the_registry_has_closed_it(
    registry: FakeRegistry, client: RegistryClient
) -> None:
    client.register("s", STRING)
    registry.failures[:] = [None]  # as if it had been closed in between
    assert client.latest("s").id == 1


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, None),
        ({"basic_auth_user_info": "ann:se:cret"}, "Basic YW5uOnNlOmNyZXQ="),
        ({"schema_registry_basic_auth_user_info": "ann:se:cret"}, "Basic YW5uOnNlOmNyZXQ="),
        ({"bearer_auth_token": "abc", "bearer_auth_credentials_source": "STATIC_TOKEN"}, "Bearer abc"),
        (
            {
                "basic_auth_credentials_source": "SASL_INHERIT",
                "sasl_username": "ann",
                "sasl_password": "se:cret",
            },
            "Basic YW5uOnNlOmNyZXQ=",
        ),
    ],
)
def test_the_login_is_sent_when_the_settings_have_one(
    registry: FakeRegistry, properties: dict[str, str], expected: str | None
) -> None:
    with open_client(registry.url, properties=properties) as client:
        client.administration.subjects()
    assert registry.authorizations == [expected]


def test_the_login_of_an_address_is_sent_and_not_shown(registry: FakeRegistry) -> None:
    with_login = registry.url.replace("http://", "http://ann:p%40ss@")
    settings = RegistrySettings.of_url(with_login)
    assert "p@ss" not in repr(settings)
    assert "p%40ss" not in repr(settings)
    with RegistryClient(settings) as client:
        client.administration.subjects()
    assert registry.authorizations == ["Basic YW5uOnBAc3M="]


def test_tls_is_spoken_when_the_address_says_so(tmp_path: Path) -> None:
    directory = new_directory(tmp_path / "certificates")
    server = load_server(TlsSettings.of_properties(broker_settings(directory)))
    with running_registry(server.context) as registry:
        trusting = {"schema_registry_ssl_truststore_location": str(directory.trusted)}
        with open_client(registry.url, properties=trusting) as client:
            assert client.register("s", STRING).id == 1
        with open_client(registry.url) as client, pytest.raises(RegistryUnreachableError, match="CERTIFICATE_VERIFY"):
            client.latest("s")


def test_an_answer_that_is_no_registrys_is_said_to_be_none(registry: FakeRegistry, client: RegistryClient) -> None:
    registry.subjects["s"] = {1: {"id": 1, "schemaType": "AVRO", "references": []}}
    with pytest.raises(RegistryAnswerError, match="not that of a schema registry"):
        client.latest("s")
