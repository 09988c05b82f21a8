"""Users with passwords, made and removed by client libraries: who was made can log in, who was removed cannot."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaAdminClient
from kafka.admin import UserScramCredentialDeletion as PythonDeletion
from kafka.admin import UserScramCredentialUpsertion as PythonUpsertion

from penstock.client.connection import BlockingConnection, LoginRefusedError
from penstock.client.security import ClientSecurity
from penstock.security.sasl.scram import SCRAM_HASHES
from penstock.security.sasl.scram_client import ScramCredentials
from tests.clients.sasl_broker import PASSWORD, USER, SaslBroker
from tests.clients.support import PATIENCE_S
from tests.clients.test_logins import confluent_settings

MECHANISMS = tuple(SCRAM_HASHES)
_numbers = itertools.count()


def can_log_in(broker: SaslBroker, user: str, password: str, mechanism: str) -> bool:
    security = ClientSecurity(credentials=ScramCredentials(SCRAM_HASHES[mechanism], user, password))
    try:
        BlockingConnection(*broker.sasl_address, security=security).close()
    except LoginRefusedError:
        return False
    return True


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_user_logs_in_until_removed_when_confluent_kafka_made_it(sasl_broker: SaslBroker, mechanism: str) -> None:
    admin: Any = AdminClient(confluent_settings(sasl_broker, "SCRAM-SHA-256", protocol="SASL_SSL"))
    kind = ScramMechanism[mechanism.replace("-", "_")]
    user = f"by-confluent-{next(_numbers)}"

    def alter(change: Any) -> None:
        admin.alter_user_scram_credentials([change])[user].result(PATIENCE_S)

    alter(UserScramCredentialUpsertion(user, ScramCredentialInfo(kind, 5000), b"one, = two"))
    described = admin.describe_user_scram_credentials([user])[user].result(PATIENCE_S)
    assert [(each.mechanism, each.iterations) for each in described.scram_credential_infos] == [(kind, 5000)]
    assert can_log_in(sasl_broker, user, "one, = two", mechanism)
    assert not any(can_log_in(sasl_broker, user, "one, = two", other) for other in {*MECHANISMS} - {mechanism})
    alter(UserScramCredentialUpsertion(user, ScramCredentialInfo(kind, 4096), b"three"))
    assert not can_log_in(sasl_broker, user, "one, = two", mechanism)
    assert can_log_in(sasl_broker, user, "three", mechanism)
    alter(UserScramCredentialDeletion(user, kind))
    assert not can_log_in(sasl_broker, user, "three", mechanism)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_user_logs_in_until_removed_when_kafka_python_made_it(sasl_broker: SaslBroker, mechanism: str) -> None:
    user = f"by-kafka-python-{next(_numbers)}"
    admin = KafkaAdminClient(
        bootstrap_servers=sasl_broker.servers("SASL_SSL"),
        security_protocol="SASL_SSL",
        ssl_cafile=str(sasl_broker.authority),
        sasl_mechanism="PLAIN",
        sasl_plain_username=USER,
        sasl_plain_password=PASSWORD,
    )
    try:
        admin.alter_user_scram_credentials([PythonUpsertion(user, mechanism, "one", iterations=6000)])
        described = admin.describe_user_scram_credentials([user])[user]
        assert [each["iterations"] for each in described["credential_infos"]] == [6000]
        assert can_log_in(sasl_broker, user, "one", mechanism)
        admin.alter_user_scram_credentials([PythonDeletion(user, mechanism)])
        assert not can_log_in(sasl_broker, user, "one", mechanism)
    finally:
        admin.close()
