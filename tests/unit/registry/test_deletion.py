from __future__ import annotations

from penstock.registry.model import Deleted
from penstock.schemas.schema import Reference
from tests.unit.registry.registering import Registry, record, refused

BASE = record("a", name="Base")
REFERRING = record("b", types={"b": "Base"})
REFERENCES = (Reference("Base", "base", 1),)


def test_a_soft_deleted_version_is_hidden_and_its_id_resolves(registry: Registry) -> None:
    registry.register("s", record("a"))
    second = registry.register("s", record("a", "b?"))
    assert registry.delete_version("s", "latest") == 2
    assert registry.versions("s") == [1]
    assert registry.text_by_id(2) == second.content.text
    with refused(40402, "Version 2 not found"):
        registry.version("s", 2)
    assert registry.version("s", 2, deleted=True).deleted
    with refused(40403, "Schema not found"):
        registry.lookup("s", record("a", "b?"))
    assert registry.lookup("s", record("a", "b?"), deleted=True).version == 2


def test_deletion_of_versions_takes_one_step_after_the_other(registry: Registry) -> None:
    registry.register("s", record("a"))
    registry.register("s", record("a", "b?"))
    with refused(40401, "Subject 'other' not found"):
        registry.delete_version("other", 1)
    with refused(40402):
        registry.delete_version("s", 3)
    with refused(42202, "is not a valid version id"):
        registry.delete_version("s", "first")
    with refused(40407):
        registry.delete_version("s", 1, permanent=True)
    assert registry.delete_version("s", 1) == 1
    with refused(40406):
        registry.delete_version("s", 1)
    assert registry.delete_version("s", 1, permanent=True) == 1
    with refused(40402):
        registry.delete_version("s", 1, permanent=True)
    with refused(40403):
        registry.text_by_id(1)
    assert registry.versions("s", Deleted.INCLUDED) == [2]


def test_deletion_of_subjects_takes_one_step_after_the_other(registry: Registry) -> None:
    with refused(40401):
        registry.delete("s")
    registry.register("s", record("a"))
    registry.register("s", record("a", "b?"))
    registry.delete_version("s", 1)
    with refused(40405):
        registry.delete("s", permanent=True)
    assert registry.delete("s") == [2]
    with refused(40404):
        registry.delete("s")
    assert (registry.subjects(), registry.subjects(deleted=Deleted.ONLY)) == ([], ["s"])
    with refused(40401):
        registry.versions("s")
    assert registry.delete("s", permanent=True) == [1, 2]
    with refused(40401):
        registry.delete("s", permanent=True)
    assert registry.subjects(deleted=Deleted.INCLUDED) == []


def test_a_subject_starts_over_with_another_id_when_it_was_removed(registry: Registry) -> None:
    registry.register("s", record("a"))
    registry.delete("s")
    registry.delete("s", permanent=True)
    again = registry.register("s", record("a"))
    assert (again.version, again.id) == (1, 2)


def test_an_id_is_not_given_again_when_its_schema_was_removed_and_compacted_away(registry: Registry) -> None:
    registry.register(":.c:s", record("a"))
    registry.delete(":.c:s")
    registry.delete(":.c:s", permanent=True)
    registry.register("t", record("a"))
    after = Registry(registry.log.compacted())
    assert after.register(":.c:s", record("b")).id == 2
    assert after.register("u", record("b")).id == 2
    after.close()


def test_the_highest_id_is_told_again_when_another_registry_wrote_an_empty_noop(registry: Registry) -> None:
    registry.register("s", record("a"))
    registry.delete("s")
    registry.delete("s", permanent=True)
    noop = registry.state.noop()
    assert noop.value is not None
    registry.state.replay(noop.key, None, 99)
    registry.run(registry.service.repair())
    assert registry.log.records[-1] == noop


def test_a_number_is_not_given_again_while_the_subject_is_there(registry: Registry) -> None:
    registry.register("s", record("a"))
    registry.register("s", record("a", "b?"))
    registry.delete_version("s", 2)
    registry.delete_version("s", 2, permanent=True)
    assert registry.register("s", record("a", "c?")).version == 3


def test_what_a_live_schema_refers_to_cannot_be_hidden(registry: Registry) -> None:
    registry.register("base", BASE)
    registry.register("s", REFERRING, references=REFERENCES)
    for deletion in (lambda: registry.delete("base"), lambda: registry.delete_version("base", 1)):
        with refused(42206, "One or more references exist to the schema"):
            deletion()
    assert registry.run(registry.service.subjects.referenced_by("base", "1")) == [2]


def test_what_any_schema_refers_to_cannot_be_removed(registry: Registry) -> None:
    registry.register("base", BASE)
    registry.register("s", REFERRING, references=REFERENCES)
    registry.delete("s")
    assert registry.run(registry.service.subjects.referenced_by("base", "1")) == []
    assert registry.run(registry.service.subjects.referenced_by("base", "1", deleted=True)) == [2]
    registry.delete("base")
    with refused(42206):
        registry.delete("base", permanent=True)
    registry.delete("s", permanent=True)
    assert registry.delete("base", permanent=True) == [1]


def test_references_of_its_own_do_not_hinder_the_deletion_of_a_subject(registry: Registry) -> None:
    registry.configure("s", compatibility="NONE")
    registry.register("s", BASE)
    registry.register("s", REFERRING, references=(Reference("Base", "s", 1),))
    with refused(42206):
        registry.delete_version("s", 1)
    assert registry.delete("s") == [1, 2]
    assert registry.delete("s", permanent=True) == [1, 2]


def test_references_are_those_of_the_context_of_who_refers(registry: Registry) -> None:
    registry.register("base", BASE)
    with refused(42201):
        registry.register(":.c:s", REFERRING, references=REFERENCES)
    registry.register(":.c:base", BASE)
    registry.register(":.c:s", REFERRING, references=REFERENCES)
    assert registry.delete("base") == [1]
    with refused(42206):
        registry.delete(":.c:base")


def test_config_and_mode_go_with_the_last_version(registry: Registry) -> None:
    settings = registry.service.settings
    registry.register("s", record("a"))
    registry.register("s", record("a", "b?"))
    registry.configure("s", compatibility="FULL")
    registry.set_mode("READWRITE", "s")
    registry.delete_version("s", 1)
    assert registry.run(settings.config("s")).compatibility_level == "FULL"
    registry.delete_version("s", 2)
    with refused(40408):
        registry.run(settings.config("s"))
    with refused(40409):
        registry.run(settings.mode("s"))


def test_nothing_is_deleted_when_the_subject_is_read_only(registry: Registry) -> None:
    registry.register("s", record("a"))
    registry.set_mode("READONLY", "s")
    for deletion in (lambda: registry.delete("s"), lambda: registry.delete_version("s", 1)):
        with refused(42205, "read-only mode"):
            deletion()


def test_a_context_is_forgotten_when_it_is_empty(registry: Registry) -> None:
    contexts = registry.service.contexts
    registry.register(":.c:s", record("a"))
    registry.configure(":.c:", compatibility="NONE")
    registry.delete(":.c:s")
    with refused(42211):
        registry.run(contexts.delete(".c"))
    registry.delete(":.c:s", permanent=True)
    assert registry.run(contexts.names()) == [".", ".c"]
    registry.run(contexts.delete(":.c:"))
    assert registry.run(contexts.names()) == ["."]
    with refused(40408):
        registry.run(registry.service.settings.config(":.c:"))
    with refused(42211):
        registry.run(contexts.delete("."))
