"""Topics that a pattern finds, and rights on them, before Spark is started."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

import penstock
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.preflight.topics import READ, Need, check_needs

GUARDED = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="secret" '
        'user_admin="secret" user_alice="secret";'
    ),
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:admin",
}


def test_the_missing_right_is_named_when_a_pattern_finds_a_topic_that_may_not_be_read() -> None:
    with penstock.Broker(config=GUARDED) as broker:

        def settings(user: str) -> dict[str, str]:
            login = {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": "secret"}
            return {"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT", **login}

        def check(pattern: str) -> None:
            needed = Need("", READ, "it cannot be read", tuple(settings("alice").items()), pattern=pattern)
            check_needs([needed])

        admin = AdminClient({**settings("admin")})
        for made in admin.create_topics([NewTopic("orders-eu", 1), NewTopic("orders-us", 1)]).values():
            made.result(30)
        check("orders-.*")  # she sees none of them, as if there were none
        for topic, operation in (("orders-eu", AclOperation.READ), ("orders-us", AclOperation.DESCRIBE)):
            place = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:alice", "*")
            rule = AclBinding(*place, operation, AclPermissionType.ALLOW)
            admin.create_acls([rule])[rule].result(30)
        check("orders-e.*")
        check("nothing-.*")
        with pytest.raises(PipelineError, match="it cannot be read: the right Read on topic orders-us is missing"):
            check("orders-.*")
