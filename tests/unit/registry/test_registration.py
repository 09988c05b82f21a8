from __future__ import annotations

import json
from collections.abc import Sequence

from penstock.registry.log import LogRecord, MemoryLog
from penstock.registry.model import Deleted, Rendering, SchemaRequest
from penstock.schemas.schema import Metadata, Reference, Rule, RuleSet
from tests.unit.registry.registering import Registry, record, refused

RULES = RuleSet(domain_rules=(Rule(name="r", kind="CONDITION", mode="WRITE", type="CEL", expr="true"),))


def test_versions_and_ids_count_from_one_when_schemas_are_registered(registry: Registry) -> None:
    first = registry.register("s", record("a"))
    second = registry.register("s", record("a", "b?"))
    assert (first.version, first.id, second.version, second.id) == (1, 1, 2, 2)
    assert registry.versions("s") == [1, 2]
    assert registry.version("s", "latest") == registry.version("s", -1) == second


def test_the_version_that_is_there_is_returned_when_the_schema_differs_in_spaces_alone(registry: Registry) -> None:
    first = registry.register("s", record("a"))
    again = registry.register("s", json.dumps(json.loads(record("a")), indent=4))
    assert again == first
    assert len(registry.log.records) == 1


def test_an_older_live_version_is_returned_when_its_schema_comes_again(registry: Registry) -> None:
    first = registry.register("s", record("a"))
    registry.register("s", record("a", "b?"))
    assert registry.register("s", record("a")) == first


def test_another_subject_shares_the_id_and_the_text_when_the_content_is_equal(registry: Registry) -> None:
    first = registry.register("s", record("a"))
    other = registry.register("t", record("a"))
    assert (other.id, other.version) == (first.id, 1)
    assert other.content is first.content


def test_metadata_makes_another_id_and_the_same_text_another_version(registry: Registry) -> None:
    registry.register("s", record("a"))
    tagged = registry.register("s", record("a"), metadata=Metadata.of(properties={"owner": "me"}))
    assert (tagged.id, tagged.version) == (2, 2)
    assert tagged.guid != registry.version("s", 1).guid


def test_normalised_schemas_are_the_same_when_their_order_differs(registry: Registry) -> None:
    one = '{"type":"record","name":"R","fields":[],"z":1,"a":2}'
    other = '{"type":"record","name":"R","fields":[],"a":2,"z":1}'
    first = registry.register("s", one, normalize=True)
    assert registry.register("s", other, normalize=True) == first
    registry.configure("t", normalize=True)
    assert registry.register("t", one).id == registry.register("t", other).id == first.id


def test_an_incompatible_schema_is_refused_and_says_why(registry: Registry) -> None:
    registry.register("s", record("a"))
    with refused(409, "Schema being registered is incompatible with an earlier schema"):
        registry.register("s", record("a", "b"))
    assert registry.versions("s") == [1]


def test_another_type_of_schema_is_incompatible(registry: Registry) -> None:
    registry.register("s", record("a"))
    with refused(409, "different schema type"):
        registry.register("s", '{"type":"object"}', schema_type="JSON")


def test_what_is_no_schema_is_refused(registry: Registry) -> None:
    for text, schema_type in (
        ("{", ""), ("", ""), ('{"type":"nothing"}', ""), ("message", "PROTOBUF"), ('{"type":7}', "JSON"),
        (record("a"), "THRIFT"), ('{"type":"record","name":"R\\ud800","fields":[]}', ""),
    ):  # fmt: skip
        with refused(42201, "Invalid schema"):
            registry.register("s", text, schema_type=schema_type)
    assert registry.subjects() == []


def test_subjects_are_refused_when_they_have_control_characters_or_reserved_names(registry: Registry) -> None:
    for subject in (
        "a\x00b",
        "a\nb",
        "__GLOBAL",
        "__EMPTY",
        "",
        ":.c:",
        ":.c:__EMPTY",
        ":.__GLOBAL:x",
        ":*:x",
        "\ud800",
    ):
        with refused(42208, "is not a valid subject"):
            registry.register(subject, record("a"))


def test_a_soft_deleted_schema_comes_back_as_a_new_version_with_the_old_id(registry: Registry) -> None:
    first = registry.register("s", record("a"))
    registry.register("s", record("a", "b?"))
    registry.delete("s")
    back = registry.register("s", record("a"))
    assert (back.id, back.version) == (first.id, 3)
    # Version 1 has the same schema, so it is gone; version 2 is only hidden.
    assert registry.versions("s", Deleted.INCLUDED) == [2, 3]


def test_the_old_version_stays_when_a_schema_refers_to_it(registry: Registry) -> None:
    registry.register("base", record("a", name="Base"))
    referring = record("b", types={"b": "Base"})
    registry.register("s", referring, references=(Reference("Base", "base", 1),))
    registry.delete("s")
    registry.delete("base")
    assert registry.register("base", record("a", name="Base")).version == 2
    assert registry.versions("base", Deleted.INCLUDED) == [1, 2]


def test_metadata_without_a_text_is_for_the_last_schema(registry: Registry) -> None:
    with refused(42201):
        registry.register("s", "", metadata=Metadata.of(properties={"a": "b"}))
    first = registry.register("s", record("a"))
    tagged = registry.register("s", "", metadata=Metadata.of(properties={"a": "b"}))
    assert (tagged.version, tagged.content.text) == (2, first.content.text)
    assert registry.register("s", "", rule_set=RULES).content.metadata == Metadata.of(properties={"a": "b"})


def test_a_schema_keeps_the_contract_of_the_last_version_and_gets_that_of_the_config(registry: Registry) -> None:
    registry.configure(
        "s",
        defaultMetadata={"properties": {"owner": "nobody", "tier": "3"}},
        overrideMetadata={"properties": {"tier": "1"}},
        defaultRuleSet={"domainRules": [{"name": "d", "kind": "CONDITION", "mode": "WRITE", "type": "CEL"}]},
    )
    stored = registry.register("s", record("a"), metadata=Metadata.of(properties={"owner": "me"}), rule_set=RULES)
    assert dict(stored.content.metadata.properties if stored.content.metadata else ()) == {"owner": "me", "tier": "1"}
    assert stored.content.rule_set is not None
    assert [rule.name for rule in stored.content.rule_set.domain_rules] == ["d", "r"]
    # The serializer that knows the text alone is answered with the version that is there.
    assert registry.register("s", record("a")) == stored
    assert registry.register("s", record("a", "b?")).content.rule_set == stored.content.rule_set


def test_rules_that_no_client_could_execute_are_refused(registry: Registry) -> None:
    bad = RuleSet(domain_rules=(Rule(name="r", kind="CONDITION", mode="UPGRADE", type="CEL"),))
    with refused(42210):
        registry.register("s", record("a"), rule_set=bad)
    registry.configure("s", validateRules=False)
    assert registry.register("s", record("a"), rule_set=bad).version == 1


def test_a_default_of_the_wrong_type_is_refused_unless_the_config_lets_it_pass(registry: Registry) -> None:
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}'
    with refused(42201):
        registry.register("s", text)
    registry.configure("s", validateNewSchemas=False)
    assert registry.register("s", text).version == 1


def test_the_version_that_a_caller_wants_has_to_be_the_next_one(registry: Registry) -> None:
    with refused(42201, "not one more than previous version"):
        registry.register("s", record("a"), version=2)
    assert registry.register("s", record("a"), version=1).version == 1
    assert registry.register("s", record("a", "b?"), version=2).version == 2
    assert registry.register("s", record("a"), version=3).version == 1


def test_a_schema_that_no_record_can_hold_is_refused(registry: Registry) -> None:
    with refused(42209):
        registry.register("s", record("a"), metadata=Metadata.of(properties={"a": "x" * 1_000_000}))
    with refused(42201):
        registry.register("s", json.dumps({"type": "string", "doc": "x" * (1 << 20)}))


def test_half_of_a_surrogate_pair_is_refused_wherever_it_stands(registry: Registry) -> None:
    with refused(42201):
        registry.register("s", record("a"), metadata=Metadata.of(properties={"a": "\ud800"}))
    with refused(42201):
        registry.register("s", record("a"), references=(Reference("\ud800", "s", 1),))


def test_protobuf_and_json_are_registered_and_given_in_the_format_that_is_asked_for(registry: Registry) -> None:
    proto = 'syntax = "proto3";\nmessage M {\n  string a = 1;\n}\n'
    stored = registry.register("p", proto, schema_type="PROTOBUF")
    subjects = registry.service.subjects
    serialized = registry.run(subjects.version("p", "1", rendering=Rendering("serialized"))).text
    assert serialized != stored.content.text
    again = registry.run(subjects.lookup("p", SchemaRequest(serialized, "PROTOBUF")))
    assert again.stored == stored
    assert registry.run(subjects.version("p", "1", rendering=Rendering("unknown"))).text == stored.content.text
    assert registry.register("j", '{"type": "object"}', schema_type="JSON").content.text == '{"type":"object"}'


def test_a_schema_sent_without_references_finds_the_version_that_has_them(registry: Registry) -> None:
    registry.register("base", record("a", name="Base"))
    stored = registry.register("s", record("b", types={"b": "Base"}), references=(Reference("Base", "base", 1),))
    resolved = record("b", types={"b": json.loads(record("a", name="Base"))})
    assert registry.register("s", resolved) == stored
    assert registry.lookup("s", resolved) == stored
    rendering = Rendering("resolved")
    assert '"Base"' in registry.run(registry.service.subjects.text("s", "1", rendering=rendering))


def test_the_latest_version_of_a_reference_is_written_down_as_it_is_now(registry: Registry) -> None:
    registry.register("base", record("a", name="Base"))
    text = record("b", types={"b": "Base"})
    stored = registry.register("s", text, references=(Reference("Base", "base", -1),))
    assert stored.content.references == (Reference("Base", "base", 1),)
    registry.register("base", record("a", "c?", name="Base"))
    assert registry.register("s", text, references=(Reference("Base", "base", -1),)).version == 2


def test_a_reference_to_nothing_is_refused(registry: Registry) -> None:
    for reference in (Reference("Base", "base", 1), Reference("Base", "base", -1)):
        with refused(42201, "No schema reference found"):
            registry.register("s", record("b", types={"b": "Base"}), references=(reference,))


def test_a_version_that_is_only_tagged_is_the_same_schema(registry: Registry) -> None:
    metadata = Metadata.of(properties={"a": "b", "confluent:version": "1"})
    stored = registry.register("s", record("a"), metadata=metadata)
    assert registry.register("s", record("a"), metadata=Metadata.of(properties={"a": "b"})) == stored


class OvertakenLog:
    """A late leader's records arrive between this leader's decision and its own records."""

    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.late: list[LogRecord] = []

    async def write(self, records: Sequence[LogRecord]) -> None:
        late, self.late = self.late, []
        await self.log.write(late)
        await self.log.write(records)


def test_an_id_is_not_taken_twice_when_a_late_leader_writes_in_between(registry: Registry) -> None:
    registry.register("s", record("a"))
    logs: list[OvertakenLog] = []
    late_leader = Registry(registry.log.records)
    theirs = late_leader.register("s", record("a", "x?"))

    def around(log: MemoryLog) -> OvertakenLog:
        logs.append(OvertakenLog(log))
        return logs[0]

    overtaken = Registry(registry.log.records, around)
    logs[0].late = late_leader.log.records[-1:]
    with refused(50001):
        overtaken.register("s", record("a", "b?"))
    assert overtaken.version("s", 2) == theirs
    # The next write puts the old value back over what was not applied, for whoever replays the compacted log.
    overtaken.register("t", record("t"))
    replayed = Registry(overtaken.log.compacted())
    assert replayed.version("s", 2) == theirs
    for each in (late_leader, overtaken, replayed):
        each.close()


def test_import_is_refused_when_its_id_or_version_would_leave_none_for_the_next(registry: Registry) -> None:
    registry.set_mode("IMPORT")
    with refused(42205, "too few ids"):
        registry.register("s", record("a"), id=2_147_483_647)
    with refused(42205, "too few versions"):
        registry.register("s", record("a"), id=7, version=2_147_483_647)
    registry.register("s", record("a"), id=2_000_000_000)
    registry.set_mode("READWRITE")
    assert registry.register("t", record("b")).id == 2_000_000_001


def test_nothing_is_written_when_the_ids_of_a_context_have_run_out(registry: Registry) -> None:
    key = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    value = b'{"subject":"s","version":1,"id":2147483647,"schema":"\\"string\\"","deleted":false}'
    registry.run(registry.log.write([LogRecord(key, value)]))
    written = len(registry.log.records)
    with refused(50001, "run out"):
        registry.register("t", record("b"))
    assert len(registry.log.records) == written
    assert registry.register("t", '"string"').id == 2_147_483_647  # what has an id keeps it
