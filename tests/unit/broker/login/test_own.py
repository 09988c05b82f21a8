"""Who brokers are on each listener."""

from __future__ import annotations

from penstock.broker.login.own import own_users
from penstock.core.config.broker_config import BrokerConfig

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def test_user_of_the_brokers_is_known_on_a_listener_when_they_do_not_use_it_yet() -> None:
    config = BrokerConfig.parse(
        {
            "listeners": "PLAINTEXT://:9092,SASL_SSL://:9093,CLIENTS://:9094,TICKETS://:9095",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CLIENTS:SASL_PLAINTEXT,TICKETS:SASL_PLAINTEXT"
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "listener.name.tickets.sasl.mechanism.inter.broker.protocol": "GSSAPI",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f'{SCRAM} username="kafka" password="secret";',
            "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{SCRAM};",
        }
    )
    assert own_users(config) == {"SASL_SSL": "kafka"}
