"""What a run may not do is told before Spark starts; who has the rights that it needs, and no more, starts it."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
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
from penstock.cli.commands.sql import app as sql_app
from penstock.cli.main import main
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER
from tests.fake_registry import running_registry
from tests.pipelines.cli import guarded_jobs
from tests.pipelines.cli.guarded_jobs import MADE, ORDERS, OUT
from tests.pipelines.cli.no_spark import STARTED, forbid_spark, start

# Generous: the check takes 1.2 s, and a run has patience for a minute.
LIMIT_S = 10.0
Place = tuple[ResourceType, str, ResourcePatternType]
ON_ORDERS: Place = (ResourceType.TOPIC, ORDERS, ResourcePatternType.LITERAL)
ON_OUT: Place = (ResourceType.TOPIC, OUT, ResourcePatternType.LITERAL)
GROUP: Place = (ResourceType.GROUP, "guarded", ResourcePatternType.LITERAL)
COUNTING: Place = (ResourceType.GROUP, MADE, ResourcePatternType.LITERAL)
OWN_TOPICS: Place = (ResourceType.TOPIC, f"{MADE}-", ResourcePatternType.PREFIXED)
# What each user may do: operations, and on what.
RIGHTS: dict[str, Sequence[tuple[str, Place]]] = {
    "nobody": (("read", GROUP),),
    "describer": (("describe", ON_ORDERS), ("write", ON_OUT), ("read", GROUP)),
    "reader": (("read", ON_ORDERS), ("read", GROUP)),
    "lookers-on": (("read", ON_ORDERS), ("describe", ON_OUT), ("read", GROUP)),
    "groupless": (("read", ON_ORDERS), ("write", ON_OUT)),
    "exact": (("read", ON_ORDERS), ("write", ON_OUT), ("read", GROUP)),
    "half-counter": (("read", ON_ORDERS), ("write", ON_OUT), ("read", COUNTING)),
    "deaf-counter": (
        *(("read", ON_ORDERS), ("write", ON_OUT), ("read", COUNTING)),
        *(("write", OWN_TOPICS), ("create", OWN_TOPICS)),
    ),
    "counter": (
        *(("read", ON_ORDERS), ("write", ON_OUT), ("read", COUNTING)),
        *(("read", OWN_TOPICS), ("write", OWN_TOPICS), ("create", OWN_TOPICS)),
    ),
}
USERS = " ".join(f'user_{name}="{name}-secret"' for name in RIGHTS)
CONFIG = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="b"'
        f' user_broker="b" user_admin="admin-secret" {USERS};'
    ),
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:admin",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}


def missing(whose: str, right: str, topic: str, *, is_seen: bool) -> str:
    seen = f"the right {right} on topic {topic} is missing"
    unseen = f"this user may not see the topic {topic}, and needs {right} on it"
    return (
        f"Error: {whose}: {seen if is_seen else unseen}\n"
        "Somebody who may do so grants it:"
        f" penstock acls add --principal USER --operation {right.lower()} --topic {topic}\n"
    )


NO_READ, UNSEEN_SOURCE = (
    missing(f"the source {ORDERS} cannot be read", "Read", ORDERS, is_seen=is_seen) for is_seen in (True, False)
)
NO_WRITE, UNSEEN_SINK = (
    missing(f"the sink {OUT} cannot be used", "Write", OUT, is_seen=is_seen) for is_seen in (True, False)
)
NO_END, UNSEEN_END = (
    missing(f"the sink to-{OUT} cannot be used", "Write", OUT, is_seen=is_seen) for is_seen in (True, False)
)
CHANGELOG = f"{MADE}-n-changelog"
UNHEARD_CHANGELOG = missing(f"the source {CHANGELOG} cannot be read", "Read", CHANGELOG, is_seen=True)
UNSEEN_CHANGELOG = missing(f"the sink {CHANGELOG} cannot be used", "Write", CHANGELOG, is_seen=False)
NO_GROUP = (
    "Error: this user may not join the group guarded, by which drivers find out whether another one runs\n"
    "The user needs Read on the group.\n"
)
REFUSED = "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"
NO_LOGIN = (
    f"Error: BROKER: {REFUSED}\nCheck the user, the password and the mechanism in the file given to --command-config.\n"
)
NO_OTHER_LOGIN = f"Error: the source {ORDERS} cannot be read: the brokers at BROKER refuse the login: {REFUSED}\n"


class Case(NamedTuple):
    command: str
    job: str
    user: str
    told: str
    code: int = 1
    password: str = ""


LONGEST = Case("pipeline", "other_login", "exact", NO_OTHER_LOGIN, 3)
CASES = [
    Case("pipeline", "copying", "nobody", UNSEEN_SOURCE),
    Case("pipeline", "copying", "describer", NO_READ),
    Case("pipeline", "copying", "reader", UNSEEN_SINK),
    Case("pipeline", "copying", "lookers-on", NO_WRITE),
    Case("pipeline", "making", "lookers-on", NO_WRITE),
    Case("pipeline", "copying", "exact", NO_LOGIN, 3, "wrong"),
    LONGEST,
    Case("pipeline", "copying", "exact", STARTED),
    Case("pipeline", "copying", "groupless", STARTED),
    Case("pipeline", "making", "exact", STARTED),
    Case("streams", "streaming", "nobody", UNSEEN_SOURCE),
    Case("streams", "streaming", "describer", NO_READ),
    Case("streams", "streaming", "reader", UNSEEN_END),
    Case("streams", "streaming", "lookers-on", NO_END),
    Case("streams", "streaming", "groupless", NO_GROUP),
    Case("streams", "streaming", "exact", NO_LOGIN, 3, "wrong"),
    Case("streams", "streaming", "exact", STARTED),
    Case("streams", "counting", "half-counter", UNSEEN_CHANGELOG),
    Case("streams", "rereading", "deaf-counter", UNHEARD_CHANGELOG),
    Case("streams", "counting", "counter", STARTED),
    Case("streams", "rereading", "counter", STARTED),
]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with penstock.Broker(tmp_path_factory.mktemp("guarded") / "data", config=CONFIG) as broker:
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        known = {"sasl.username": "admin", "sasl.password": "admin-secret"}
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **login, **known})
        rules = [
            AclBinding(*place, f"User:{user}", "*", AclOperation[operation.upper()], AclPermissionType.ALLOW)
            for user, rights in RIGHTS.items()
            for operation, place in rights
        ]
        topics = [NewTopic(name, 1) for name in (ORDERS, OUT, CHANGELOG)]
        for made in (*admin.create_topics(topics).values(), *admin.create_acls(rules).values()):
            made.result(30)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **login, **known})
        producer.produce(ORDERS, json.dumps({"id": 1, "name": "a"}))
        assert not producer.flush(30)
        yield broker.bootstrap_servers


def client_file(directory: Path, user: str, password: str) -> str:
    file = directory / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required"
        f' username="{user}" password="{password}";\n'
    )
    return str(file)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case[:3]) + case.password)
def test_a_missing_right_is_told_before_spark_starts_and_no_other_right_is_wanted(
    case: Case,
    servers: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forbid_spark(monkeypatch)
    monkeypatch.chdir(tmp_path)
    file = client_file(tmp_path, case.user, case.password or f"{case.user}-secret")
    job = f"{guarded_jobs.__file__}:{case.job}"
    begun = time.monotonic()
    code = main([case.command, "run", job, "--once", "-b", servers, "--command-config", file])
    took_s = time.monotonic() - begun
    told = capfd.readouterr().err.replace(servers, "BROKER")
    assert case._replace(told=told, code=code) == case
    assert case is not LONGEST or took_s < LIMIT_S


INTO = f"INSERT INTO `{OUT}` SELECT id, name FROM `{ORDERS}`"
ALL_ORDERS = f"SELECT name FROM `{ORDERS}`"
NO_TABLE_READ, NO_TABLE_DESCRIBE = (
    f"Error: the right {right} on topic {ORDERS} is missing\n"
    f"Somebody who may do so grants it: an ACL that allows {right}.\n"
    for right in ("Read", "Describe")
)
NO_QUESTION = missing("the question fails", "Read", ORDERS, is_seen=True)
NO_INSERT, UNSEEN_INSERT = (missing("INSERT INTO fails", "Write", OUT, is_seen=is_seen) for is_seen in (True, False))


class SqlCase(NamedTuple):
    statement: str
    user: str
    told: str
    has_schema: bool = False  # the orders have, keys and values: nobody looks at their records
    code: int = 1


SQL_CASES = [
    SqlCase(ALL_ORDERS, "nobody", NO_TABLE_DESCRIBE),
    SqlCase(ALL_ORDERS, "describer", NO_TABLE_READ),
    SqlCase(ALL_ORDERS, "describer", NO_QUESTION, has_schema=True),
    SqlCase(f"EXPLAIN {ALL_ORDERS}", "describer", STARTED, has_schema=True),
    SqlCase(ALL_ORDERS, "reader", STARTED, has_schema=True),
    SqlCase(f"SELECT * FROM `{OUT}`", "lookers-on", STARTED),  # it holds nothing
    SqlCase(INTO, "describer", NO_QUESTION, has_schema=True),
    SqlCase(INTO, "reader", UNSEEN_INSERT),
    SqlCase(INTO, "lookers-on", NO_INSERT),
    SqlCase(INTO, "groupless", STARTED),
]


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    with running_registry() as running:
        fields = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
        schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
        for part in ("key", "value"):
            running.answer("POST", f"/subjects/{ORDERS}-{part}/versions", {}, {"schema": schema})
        yield running.url


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # connections end with the process of a command
@pytest.mark.parametrize("case", SQL_CASES, ids=lambda case: f"{case.statement.split()[0]}-{case.user}")
def test_a_missing_right_is_told_before_spark_starts_when_a_statement_needs_it(
    case: SqlCase,
    servers: str,
    registry: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forbid_spark(monkeypatch)
    monkeypatch.setattr(sql_app, "_open", start)
    monkeypatch.delenv("PENSTOCK_REGISTRY", raising=False)
    monkeypatch.chdir(tmp_path)
    file = client_file(tmp_path, case.user, f"{case.user}-secret")
    schemas = ["--registry", registry] if case.has_schema else []
    code = main(["sql", case.statement, "-b", servers, "--command-config", file, *schemas])
    gc.collect()
    assert case._replace(told=capfd.readouterr().err.replace(servers, "BROKER"), code=code) == case
