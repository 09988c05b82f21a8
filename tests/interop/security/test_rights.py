"""The same rules and the same requests to Apache Kafka and to Penstock: every form of every API of the table of rights,
with all of its rights, with none, and with each set less one. No answer may differ.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from apache_kafka.jars import UNMEASURED_OPTIONS
from apache_kafka.node import ApacheKafkaNode
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import create_acls, create_topics, delete_acls, delete_topics, describe_acls, metadata
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.security.acls.rights import RIGHTS, Form, Right
from penstock.security.acls.types import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from penstock.testing.processes import BrokerProcess, ServerProcess
from tests.authorization.cases import CASES, Case, codes_of, names
from tests.authorization.requests import GROUP, NEW_TOPIC, TOPIC, TRANSACTION, Named
from tests.interop.security.address_client import AddressClient

# Both have the same rules: whoever comes from the first address may do everything. Before there are any rules everybody
# may, or nobody could make the first one.
ADMIN, CLIENT = "127.0.0.1", "127.0.0.2"
CONFIG = {
    "node.id": "1",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
ANONYMOUS = "User:ANONYMOUS"
ALLOW, ALL = Permission.ALLOW, Operation.ALL
KINDS = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID)
PATIENCE_S = 30.0
# Where a right decides nothing but what else is said; and what is about the state of the broker, not about rights.
PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)

CREATING = CASES[3, "creating"]  # Kafka creates a topic after its answer

Grant = tuple[Right, ...]
Answer = tuple[tuple[int, ...], tuple[str, ...]]  # the errors, and which of the names it tells


class Stage:
    """A broker, its administrator, and the client whose rights change."""

    def __init__(self, server: ServerProcess) -> None:
        self.admin = AddressClient(server.port, ADMIN)
        self.client = AddressClient(server.port, CLIENT)
        versions = self.admin.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)
        self.served = {each.api_key: (each.min_version, each.max_version) for each in versions.api_keys}
        rules = [_creation(kind, CLUSTER_NAME if kind is ResourceType.CLUSTER else "*", ALL, ADMIN) for kind in KINDS]
        self._add(rules)
        self._wait_for_rules(ADMIN, len(rules))

    def give(self, grant: Grant, case: Case) -> None:
        mine = _filter(CLIENT)
        self.admin.ask(delete_acls.DeleteAclsRequest(filters=[mine]), 2)
        rules = [
            _creation(right.kind, name, right.operation, CLIENT) for right in grant for name in _names(right, case)
        ]
        if rules:
            self._add(rules)
        self._wait_for_rules(CLIENT, len(rules))

    def restore(self) -> bytes:
        """The topic is there, with its id; the other is not."""
        gone = delete_topics.DeleteTopicsRequest(
            topics=[delete_topics.DeleteTopicState(name=NEW_TOPIC)], timeout_ms=10_000
        )
        self.admin.ask(gone, 6)
        wanted = create_topics.CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1)
        self.admin.ask(create_topics.CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 7)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            both = [metadata.MetadataRequestTopic(name=name) for name in (TOPIC, NEW_TOPIC)]
            request = metadata.MetadataRequest(topics=both, allow_auto_topic_creation=False)
            there, other = sorted(self.admin.ask(request, 12).topics, key=lambda each: each.name != TOPIC)
            if there.error_code == 0 and other.error_code and all(p.leader_id >= 0 for p in there.partitions):
                topic_id: bytes = there.topic_id
                return topic_id
            assert time.monotonic() < deadline, (there, other)
            time.sleep(0.01)

    def seed(self, topic_id: bytes) -> None:
        for each in ((10, "group"), (10, "transaction"), (8, "by name"), (22, "transactional")):
            self._settled(self.admin, CASES[each], topic_id)

    def ask(self, case: Case, topic_id: bytes) -> Answer:
        response = self._settled(self.client, case, topic_id)
        told = tuple(name for name in (TOPIC, NEW_TOPIC, GROUP, TRANSACTION) if names(response, name))
        return tuple(sorted(set(codes_of(response)))), told

    def _settled(self, client: AddressClient, case: Case, topic_id: bytes) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            response = client.ask(case.build(Named(topic_id)), case.version)
            is_created_later = case is CREATING and ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in codes_of(response)
            is_settled = not is_created_later and not set(PASSING) & set(codes_of(response))
            if is_settled or time.monotonic() > deadline:
                return response
            time.sleep(0.02)

    def _add(self, rules: list[create_acls.AclCreation]) -> None:
        response = self.admin.ask(create_acls.CreateAclsRequest(creations=rules), 2)
        assert set(codes_of(response)) == {0}, response.results[0].error_message

    def _wait_for_rules(self, host: str, count: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        asked = _filter(host)
        request = describe_acls.DescribeAclsRequest(
            resource_type_filter=asked.resource_type_filter,
            resource_name_filter=None,
            pattern_type_filter=asked.pattern_type_filter,
            principal_filter=asked.principal_filter,
            host_filter=host,
            operation=asked.operation,
            permission_type=asked.permission_type,
        )
        while sum(len(each.acls) for each in self.admin.ask(request, 2).resources) != count:
            assert time.monotonic() < deadline
            time.sleep(0.005)


def _creation(kind: ResourceType, name: str, operation: Operation, host: str) -> create_acls.AclCreation:
    return create_acls.AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal=ANONYMOUS,
        host=host,
        operation=operation,
        permission_type=ALLOW,
    )


def _filter(host: str) -> delete_acls.DeleteAclsFilter:
    return delete_acls.DeleteAclsFilter(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=ANONYMOUS,
        host_filter=host,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )


def _names(right: Right, case: Case) -> list[str]:
    return {
        ResourceType.TOPIC: ["some-other-topic"] if right.is_anywhere else [case.topic],
        ResourceType.GROUP: [GROUP, f"{GROUP}-other", f"{GROUP}-consumer"],
        ResourceType.CLUSTER: [CLUSTER_NAME],
        ResourceType.TRANSACTIONAL_ID: [TRANSACTION],
    }[right.kind]


def grants_of(form: Form) -> list[Grant]:
    """Nothing, each set of rights that is enough, each of these less one, and rights that are not enough."""
    grants: list[Grant] = [()]
    for some in form.alternatives:
        grants.append(some)
        grants += [tuple(right for right in some if right != left_out) for left_out in some]
        grants += [(Right(Operation.DESCRIBE, right.kind),) for right in some]
    grants.append((Right(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),))
    grants.append((Right(Operation.ALTER, ResourceType.CLUSTER),))
    return list(dict.fromkeys(grants))


def answers(server: ServerProcess) -> dict[str, Answer]:
    stage = Stage(server)
    found: dict[str, Answer] = {}
    for key, form in forms():
        case = CASES[key, form.words]
        topic_id = stage.restore()
        stage.seed(topic_id)
        for grant in grants_of(form):
            topic_id = stage.restore()
            stage.give(grant, case)
            words = " & ".join(map(str, grant)) or "nothing"
            try:
                found[f"{key} {form.words} with {words}"] = stage.ask(case, topic_id)
            except OSError as error:
                raise AssertionError(f"{key} {form.words} with {words} was not answered") from error
    return found


def forms() -> Iterable[tuple[int, Form]]:
    for (key, words), case in CASES.items():
        if case.is_known_to_kafka:
            yield key, next(form for form in RIGHTS[key] if form.words == words)


@pytest.fixture(scope="module")
def of_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Answer]]:
    with ApacheKafkaNode(
        tmp_path_factory.mktemp("kafka-acls") / "node", config=CONFIG, options=UNMEASURED_OPTIONS
    ) as node:
        yield answers(node)


@pytest.fixture(scope="module")
def of_penstock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Answer]]:
    with BrokerProcess(tmp_path_factory.mktemp("penstock-acls") / "data", config=CONFIG) as broker:
        yield answers(broker)


def test_no_answer_differs_when_rights_are_given_and_missing(
    of_kafka: dict[str, Answer], of_penstock: dict[str, Answer]
) -> None:
    assert len(of_kafka) > 300
    differing = [
        f"{what}: Kafka {theirs}, Penstock {of_penstock[what]}"
        for what, theirs in of_kafka.items()
        if theirs != of_penstock[what]
    ]
    assert not differing, "\n".join(differing)
