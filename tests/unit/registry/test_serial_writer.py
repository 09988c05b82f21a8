"""Many callers at once, a log that fails, and callers that go away."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from penstock.registry.documents import config_request_from_json
from penstock.registry.errors import NotLeaderError, RegistryError, StoreTimeoutError
from penstock.registry.log import LogRecord, MemoryLog
from penstock.registry.model import SchemaRequest, StoredSchema
from penstock.registry.operations.decision import Decision, DecisionDraft
from penstock.registry.records import SchemaKey, content_of, encode_schema
from penstock.registry.service import SchemaService
from penstock.registry.services.serial_writer import RegistryWriter
from penstock.registry.state import State
from penstock.schemas.schema import SchemaType
from tests.unit.registry.registering import Registry, record, refused
from tests.waiting import turns


class SlowLog:
    """Takes a turn of the loop for each call, and fails when it is told to."""

    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.calls: list[int] = []
        self.failure: RegistryError | None = None
        self.lost: list[LogRecord] = []
        self.called = asyncio.Event()
        self.opened = asyncio.Event()
        self.opened.set()

    async def write(self, records: Sequence[LogRecord]) -> None:
        self.calls.append(len(records))
        self.called.set()
        await self.opened.wait()
        await asyncio.sleep(0)
        if self.failure is not None:
            self.lost += records
            raise self.failure
        await self.log.write(records)


class Slow(Registry):
    def __init__(self) -> None:
        self.slow: SlowLog

        def around(log: MemoryLog) -> SlowLog:
            self.slow = SlowLog(log)
            return self.slow

        super().__init__(around=around)

    async def stored(self, subject: str, text: str) -> StoredSchema:
        return (await self.service.subjects.register(subject, SchemaRequest(text))).stored


def test_decisions_about_several_subjects_share_a_write_and_those_about_one_do_not() -> None:
    state = State()

    async def submit_all() -> tuple[list[int], list[int]]:
        log = SlowLog(MemoryLog(state.replay))
        writer = RegistryWriter(state, log)

        def decide(subject: str, text: str, draft: DecisionDraft) -> Decision[int]:
            content = content_of(SchemaType.AVRO, text)
            versions = state.subject(subject)
            stored = StoredSchema(subject, len(versions or ()) + 1, draft.id_of(".", content), content)
            return Decision(
                tuple(state.records_for(SchemaKey(subject, stored.version), encode_schema(stored))), lambda: stored.id
            )

        answers = [
            writer.submit(partial(decide, f"s{number % 4}", f'"t{number % 3}"'), f"s{number % 4}")
            for number in range(9)
        ]
        return await asyncio.gather(*answers), log.calls

    ids, calls = asyncio.run(submit_all())
    assert ids == [1, 2, 3, 1, 2, 3, 1, 2, 3]
    assert calls == [4, 4, 1]


def test_a_decision_that_concerns_all_is_written_alone() -> None:
    state = State()

    async def submit_all() -> list[int]:
        log = SlowLog(MemoryLog(state.replay))
        writer = RegistryWriter(state, log)
        nothing: Decision[None] = Decision((LogRecord(b"x", None),), lambda: None)
        await asyncio.gather(
            *(writer.submit(lambda _: nothing, subject) for subject in ("a", "b", None, None, "a", "b"))
        )
        return log.calls

    assert asyncio.run(submit_all()) == [2, 1, 1, 2]


def test_no_id_is_given_twice_when_many_register_at_once() -> None:
    registry = Slow()

    async def register_all() -> list[StoredSchema]:
        return await asyncio.gather(*(registry.stored(f"s{n}", record(f"f{n % 10}")) for n in range(50)))

    texts = {each.id: each.content.text for each in registry.run(register_all())}
    assert sorted(texts) == list(range(1, 11))
    assert len(set(texts.values())) == 10
    assert len(registry.log.records) == 50
    registry.close()


def test_registrations_of_one_subject_are_compared_with_each_other(registry: Registry) -> None:
    async def register_all() -> list[StoredSchema | BaseException]:
        texts = [record("a", f"f{number}") for number in range(8)]
        tasks = [registry.service.subjects.register("s", SchemaRequest(text)) for text in texts]
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        return [each if isinstance(each, BaseException) else each.stored for each in answers]

    answers = registry.run(register_all())
    refusals = [each.code for each in answers if isinstance(each, RegistryError)]
    assert refusals == [409] * 7
    assert registry.versions("s") == [1]


def test_equal_registrations_at_once_get_one_version(registry: Registry) -> None:
    async def register_all() -> set[tuple[int, int]]:
        tasks = [registry.service.subjects.register("s", SchemaRequest(record("a"))) for _ in range(20)]
        return {(each.stored.id, each.stored.version) for each in await asyncio.gather(*tasks)}

    assert registry.run(register_all()) == {(1, 1)}
    assert len(registry.log.records) == 1


def test_a_decision_is_made_again_when_the_config_changes_while_schemas_are_compared() -> None:
    registry = Slow()
    registry.run(registry.stored("s", record("a")))

    async def race() -> StoredSchema:
        registry.slow.called.clear()
        registry.slow.opened.clear()
        request = config_request_from_json({"compatibility": "NONE"})
        # The change waits in the log, and the registration is judged by the config that was.
        loosened = asyncio.create_task(registry.service.settings.set_config(request, "s"))
        await registry.slow.called.wait()
        registered = asyncio.create_task(registry.stored("s", record("a", "b")))
        await turns(20)  # it has looked at the config, and its schemas are compared on a thread
        registry.slow.opened.set()
        await loosened
        return await registered

    assert registry.run(race()).version == 2
    registry.close()


def test_an_id_is_not_given_to_another_schema_when_its_record_may_still_arrive() -> None:
    registry = Slow()
    registry.slow.failure = StoreTimeoutError()
    with refused(50002):
        registry.run(registry.stored("s", record("a")))
    registry.slow.failure = None
    assert registry.run(registry.stored("t", record("b"))).id == 2
    # Now the first one arrives after all.
    registry.run(registry.log.write(registry.slow.lost))
    assert registry.version("s", 1).id == 1
    assert registry.state.overdue() == []
    registry.close()


def test_everybody_hears_that_this_is_not_the_leader() -> None:
    registry = Slow()
    registry.slow.failure = NotLeaderError()

    async def register_all() -> list[object]:
        tasks = [registry.stored(f"s{number}", record("a")) for number in range(5)]
        return [getattr(each, "code", None) for each in await asyncio.gather(*tasks, return_exceptions=True)]

    assert registry.run(register_all()) == [50004] * 5
    registry.slow.failure = None
    assert registry.run(registry.stored("s", record("b"))).version == 1
    registry.close()


def test_others_go_on_when_a_caller_goes_away() -> None:
    registry = Slow()

    async def leave() -> StoredSchema:
        registry.slow.opened.clear()
        leaving = asyncio.create_task(registry.stored("s", record("a")))
        await registry.slow.called.wait()
        staying = asyncio.create_task(registry.stored("t", record("b")))
        leaving.cancel()
        registry.slow.opened.set()
        return await staying

    assert registry.run(leave()).id == 2
    # What was decided is written, whoever still waits for it.
    assert registry.version("s", 1).id == 1
    registry.close()


def test_a_registry_that_only_reads_starts_no_thread() -> None:
    state = State()
    service = SchemaService(state, MemoryLog(state.replay))
    assert asyncio.run(service.subjects.names()) == []
    service.close()
