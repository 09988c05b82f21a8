"""Every form of every served API, with and without each right that the table of rights names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from penstock.broker.apis import APIS
from penstock.broker.session import Principal, Session
from penstock.broker.topic_creation import delete_topic
from penstock.cluster.image import MetadataImage
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER
from penstock.core.types import ZERO_TOPIC_ID
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.security.acls.rights import REFUSALS, RIGHTS, Form, Right
from penstock.security.acls.types import CLUSTER_NAME, AclEntry, Operation, Permission, ResourcePattern, ResourceType
from tests.authorization.cases import CASES, Case, codes_of, names
from tests.authorization.requests import GROUP, NEW_TOPIC, TOPIC, TRANSACTION, Named
from tests.unit.broker.served import Served, serving

AUTHORIZATION = {int(code) for code in REFUSALS.values()}
# What other tests try: these need a listener of brokers, or a login.
ELSEWHERE = {17, 36, 38, 39, 40, 41, 56, 58, 63, 73}
PROPERTIES = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:admin",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
ADMIN = Session("1", "10.0.0.1", "PLAINTEXT", Principal("User", "admin"))
ALICE = Session("2", "10.0.0.2", "PLAINTEXT", Principal("User", "alice"))
OPERATIONS = [operation for operation in Operation if Operation.ALL < operation < Operation.CREATE_TOKENS]
KINDS = [ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID]

Forms = list[tuple[int, Form]]
FORMS: Forms = [(key, form) for key, forms in RIGHTS.items() if key not in ELSEWHERE for form in forms]


def test_every_served_api_has_a_row_in_the_table_of_rights() -> None:
    assert APIS.keys() <= RIGHTS.keys()


def test_every_form_of_the_table_is_tried() -> None:
    assert {(key, form.words) for key, form in FORMS} == CASES.keys()


class Scene:
    """A broker with one topic, where `alice` has the rights that she is given."""

    def __init__(self, served: Served) -> None:
        self.served = served

    async def restore(self) -> None:
        """The topic is there, the other one is not."""
        await delete_topic(self.served.broker.metadata, NEW_TOPIC)
        if TOPIC not in self.served.broker.metadata.image.topics:
            await self.served.create(TOPIC, 2)

    async def give(self, rights: Iterable[Right], case: Case) -> None:
        acls: dict[ResourcePattern, tuple[AclEntry, ...]] = {}
        for right in rights:
            for pattern in patterns(right, case):
                entry = AclEntry("User:alice", "*", right.operation, Permission.ALLOW)
                acls[pattern] = (*acls.get(pattern, ()), entry)
        await self.served.broker.metadata.security.apply(lambda security: ((None,), security._replace(acls=acls)))

    async def ask(self, key: int, case: Case) -> Message:
        image: MetadataImage = self.served.broker.metadata.image
        topic = image.topics.get(TOPIC)
        named = Named(ZERO_TOPIC_ID if topic is None else topic.topic_id, self.served.broker.node_id)
        self.served.session = ALICE
        response: Message = await self.served.ask(case.build(named), case.version)
        return response

    async def seed(self) -> None:
        """A group with an offset and a transaction, which lists have."""
        self.served.session = ADMIN
        topic = self.served.broker.metadata.image.topics[TOPIC]
        for each in ((10, "group"), (10, "transaction"), (8, "by name"), (22, "transactional")):
            case = CASES[each]
            response = await self.served.ask(case.build(Named(topic.topic_id)), case.version)
            while set(codes_of(response)) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
                await asyncio.sleep(0)
                response = await self.served.ask(case.build(Named(topic.topic_id)), case.version)
            assert set(codes_of(response)) == {0}


def patterns(right: Right, case: Case) -> list[ResourcePattern]:
    named = {
        ResourceType.TOPIC: ["some-other-topic"] if right.is_anywhere else [case.topic],
        ResourceType.GROUP: [GROUP, f"{GROUP}-other", f"{GROUP}-consumer"],
        ResourceType.CLUSTER: [CLUSTER_NAME],
        ResourceType.TRANSACTIONAL_ID: [TRANSACTION],
    }
    return [ResourcePattern(right.kind, name) for name in named[right.kind]]


def implies(given: Right, wanted: Right) -> bool:
    if given.kind is not wanted.kind:
        return False
    more: tuple[Operation, ...] = ()
    if wanted.operation is Operation.DESCRIBE:
        more = (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
    elif wanted.operation is Operation.DESCRIBE_CONFIGS:
        more = (Operation.ALTER_CONFIGS,)
    return given.operation in (wanted.operation, *more)


def is_enough(given: Iterable[Right], form: Form) -> bool:
    given = list(given)
    alternatives = form.alternatives
    return not alternatives or any(
        all(any(implies(each, right) for each in given) for right in some) for some in alternatives
    )


def check(form: Form, given: tuple[Right, ...], case: Case, response: Message) -> None:
    codes = AUTHORIZATION & set(codes_of(response))
    shown = {ResourceType.TOPIC: case.topic, ResourceType.GROUP: GROUP, ResourceType.TRANSACTIONAL_ID: TRANSACTION}
    if is_enough(given, form):
        assert not codes
        if form.hides:
            assert names(response, shown[form.alternatives[0][-1].kind])
        return
    lacking = [next(r for r in some if not any(implies(g, r) for g in given)) for some in form.alternatives]
    if form.hides and all(right == some[-1] for right, some in zip(lacking, form.alternatives, strict=True)):
        assert not codes
        assert not names(response, shown[form.alternatives[0][-1].kind])
        return
    firsts = [some[0] for some in form.alternatives]
    expected = {
        int(form.refusal if right == first and form.refusal is not None else REFUSALS[right.kind])
        for right, first in zip(lacking, firsts, strict=True)
    }
    if len(form.alternatives) > 1 and form.refusal is not None:
        expected.add(int(form.refusal))
    assert codes
    assert codes <= expected


def with_scene(directory: Path, forms: Forms, grants: list[tuple[Right, ...]] | None = None) -> None:
    failures: list[str] = []

    async def scenario() -> None:
        async with serving(directory, PROPERTIES) as served:
            scene = Scene(served)
            for key, form in forms:
                case = CASES[key, form.words]
                await scene.restore()
                await scene.seed()
                for given in grants or wanted_and_less(form):
                    await scene.restore()
                    await scene.give(given, case)
                    response = await scene.ask(key, case)
                    try:
                        check(form, given, case, response)
                    except AssertionError:
                        rights = ", ".join(map(str, given)) or "no right"
                        failures.append(f"{APIS[key].name} {form.words} with {rights}: {codes_of(response)}")

    asyncio.run(scenario())
    assert failures == []


def wanted_and_less(form: Form) -> list[tuple[Right, ...]]:
    """Nothing, each set of rights that is enough, and each of these less one."""
    grants: list[tuple[Right, ...]] = [()]
    for some in form.alternatives:
        grants.append(some)
        grants += [tuple(right for right in some if right != left_out) for left_out in some]
    return list(dict.fromkeys(grants))


def test_each_form_is_answered_when_its_rights_are_given_and_refused_when_one_is_missing(tmp_path: Path) -> None:
    with_scene(tmp_path, FORMS)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.lower())
def test_no_other_right_is_enough_for_any_form(tmp_path: Path, kind: ResourceType) -> None:
    grants: list[tuple[Right, ...]] = [(Right(operation, kind),) for operation in OPERATIONS]
    with_scene(tmp_path, FORMS, grants)


def test_a_transactional_batch_without_an_id_is_refused_and_nothing_is_appended(tmp_path: Path) -> None:
    """CVE-2018-17196: the batch of somebody else's transaction, with the id left out."""

    async def scenario() -> None:
        async with serving(tmp_path, PROPERTIES) as served:
            scene = Scene(served)
            await scene.restore()
            case = CASES[0, "transactional"]
            await scene.give([Right(Operation.WRITE, ResourceType.TOPIC)], case)
            topic = served.broker.metadata.image.topics[TOPIC]
            request = case.build(Named(topic.topic_id))
            request.transactional_id = None  # type: ignore[attr-defined]
            served.session = ALICE
            response = await served.ask(request, case.version)
            assert codes_of(response) == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
            partition = served.broker.partitions.find(TOPIC, 0)
            assert partition is not None
            assert partition.log.log_end_offset == 0

    asyncio.run(scenario())
