"""Config and mode at every scope, and what they change."""

from __future__ import annotations

import pytest

from penstock.registry.documents import config_request_from_json, config_request_to_json, config_to_json
from penstock.registry.model import Mode
from penstock.schemas.compatibility import Level
from tests.unit.registry.registering import Registry, record, refused


def level(registry: Registry, scope: str = "", *, in_scope: bool = True) -> Level | None:
    return registry.run(registry.service.settings.config(scope, default_to_global=in_scope)).compatibility_level


def mode(registry: Registry, scope: str = "") -> Mode:
    return registry.run(registry.service.settings.mode(scope, default_to_global=True))


def test_the_narrowest_config_counts(registry: Registry) -> None:
    assert level(registry, "s") is Level.BACKWARD
    registry.configure(":.__GLOBAL:", compatibility="FULL_TRANSITIVE")
    assert (level(registry, "s"), level(registry, ":.c:s")) == (Level.FULL_TRANSITIVE,) * 2
    registry.configure("", compatibility="FORWARD")
    assert (level(registry, "s"), level(registry, ":.c:s")) == (Level.FORWARD, Level.FULL_TRANSITIVE)
    registry.configure(":.c:", compatibility="none")
    assert level(registry, ":.c:s") is Level.NONE
    registry.configure(":.c:s", compatibility="FULL")
    assert (level(registry, ":.c:s"), level(registry, ":.c:t")) == (Level.FULL, Level.NONE)


def test_fields_that_a_subject_does_not_set_come_from_around_it(registry: Registry) -> None:
    registry.configure("", compatibility="FORWARD", compatibilityGroup="major", alias="x")
    registry.configure("s", normalize=True, alias="t")
    config = registry.run(registry.service.settings.config("s", default_to_global=True))
    assert config_to_json(config) == {
        "alias": "t", "normalize": True, "compatibilityLevel": "FORWARD", "compatibilityGroup": "major",
    }  # fmt: skip
    assert registry.run(registry.service.settings.config("other", default_to_global=True)).alias is None


def test_a_change_leaves_what_it_does_not_name_and_null_unsets(registry: Registry) -> None:
    registry.configure("s", compatibility="NONE", compatibilityGroup="major")
    registry.configure("s", compatibility="FULL", compatibilityGroup=None)
    config = registry.run(registry.service.settings.config("s"))
    assert config_to_json(config) == {"compatibilityLevel": "FULL"}


def test_a_subject_without_config_says_so(registry: Registry) -> None:
    settings = registry.service.settings
    with refused(40408, "does not have subject-level compatibility configured"):
        registry.run(settings.config("s"))
    with refused(40401):
        registry.run(settings.delete_config("s"))
    with refused(40409, "does not have subject-level mode configured"):
        registry.run(settings.mode("s"))
    with refused(40401):
        registry.run(settings.delete_mode("s"))


def test_deletion_gives_what_was(registry: Registry) -> None:
    settings = registry.service.settings
    registry.configure("s", compatibility="FULL")
    assert registry.run(settings.delete_config("s")).compatibility_level is Level.FULL
    assert level(registry, "s") is Level.BACKWARD
    registry.configure("", compatibility="NONE")
    assert registry.run(settings.delete_config()).compatibility_level is Level.NONE
    assert level(registry, in_scope=False) is Level.BACKWARD
    registry.set_mode("READONLY", "s")
    assert registry.run(settings.delete_mode("s")) is Mode.READONLY


@pytest.mark.parametrize(
    "body",
    [{"compatibility": "SIDEWAYS"}, {"compatibility": 3}, {"compatibilityPolicy": "x"}, {"normalize": 1}, {"alias": 3},
     {"defaultMetadata": []}],
)  # fmt: skip
def test_a_config_that_says_nothing_sensible_is_refused(body: dict[str, object]) -> None:
    with refused(42203):
        config_request_from_json(body)  # type: ignore[arg-type]


def test_the_answer_to_a_change_names_the_level_as_the_request_did() -> None:
    body = {"compatibility": "FULL", "alias": None}
    assert config_request_to_json(config_request_from_json(body)) == {"alias": None, "compatibility": "FULL"}
    bad = {"domainRules": [{"name": "r", "mode": "UPGRADE", "type": "CEL"}]}
    with refused(42210):
        config_request_from_json({"overrideRuleSet": bad})  # type: ignore[dict-item]


def test_scopes_that_nothing_can_be_in_are_refused(registry: Registry) -> None:
    for scope in ("a\x00", "__EMPTY", ":.__GLOBAL:s", ":*:"):
        with refused(42208):
            registry.configure(scope, compatibility="NONE")


@pytest.mark.parametrize("name", ["READONLY", "READONLY_OVERRIDE", "FORWARD"])
def test_nothing_is_written_when_the_mode_forbids_it(registry: Registry, name: str) -> None:
    stored = registry.register("s", record("a"))
    registry.set_mode(name)
    with refused(42205):
        registry.register("s", record("a", "b?"))
    with refused(42205):
        registry.configure("s", compatibility="NONE")
    # What is there is found, as serializers do that register before they write.
    assert registry.register("s", record("a")) == stored


def test_a_subject_writes_in_a_read_only_registry_unless_that_overrides(registry: Registry) -> None:
    registry.set_mode("READONLY")
    registry.set_mode("READWRITE", "s")
    assert registry.register("s", record("a")).version == 1
    registry.set_mode("READONLY_OVERRIDE")
    with refused(42205):
        registry.register("s", record("a", "b?"))


def test_modes_are_known_by_name(registry: Registry) -> None:
    with refused(42204):
        registry.set_mode("SLEEPING")
    registry.set_mode("readonly", ":.c:")
    assert (mode(registry, ":.c:s"), mode(registry, "s")) == (Mode.READONLY, Mode.READWRITE)


def test_import_needs_an_empty_place_or_force(registry: Registry) -> None:
    registry.register("s", record("a"))
    for scope in ("", "s", ":.__GLOBAL:"):
        with refused(42205):
            registry.set_mode("IMPORT", scope)
    registry.set_mode("IMPORT", "t")
    registry.set_mode("IMPORT", ":.c:")
    registry.set_mode("IMPORT", force=True)
    assert mode(registry, "s") is Mode.IMPORT


def test_imported_schemas_keep_their_ids_and_are_not_compared(registry: Registry) -> None:
    registry.set_mode("IMPORT")
    assert registry.register("s", record("a"), id=100, version=7).version == 7
    second = registry.register("s", record("a", "b"), id=50)
    assert (second.version, second.id) == (8, 50)
    assert registry.register("s", record("a"), id=100, version=7).version == 7
    with refused(42205):
        registry.register("s", record("z"))
    with refused(42207):
        registry.register("t", record("other"), id=100)
    with refused(42207):
        registry.register("s", record("other"), id=101, version=7)
    registry.set_mode("READWRITE")
    assert registry.register("t", record("c")).id == 101
    with refused(42205, "not in import mode"):
        registry.register("t", record("d"), id=7)


def test_content_that_was_imported_twice_has_the_lower_id(registry: Registry) -> None:
    registry.set_mode("IMPORT")
    registry.register("s", record("a"), id=9)
    registry.register("t", record("a"), id=4)
    registry.set_mode("READWRITE")
    assert registry.register("u", record("a")).id == 4
    registry.delete("u")
    registry.delete("t")
    for subject in ("u", "t"):
        registry.delete(subject, permanent=True)
    assert registry.register("u", record("a")).id == 9


def test_modes_of_subjects_go_with_that_of_their_context_when_asked(registry: Registry) -> None:
    for scope in ("", "s", ":.c:", ":.c:s"):
        registry.set_mode("READONLY", scope)
    registry.run(registry.service.settings.delete_mode(":.c:", recursive=True))
    assert [mode(registry, each) for each in (":.c:s", "s")] == [Mode.READWRITE, Mode.READONLY]
    registry.run(registry.service.settings.delete_mode(recursive=True))
    assert mode(registry, "s") is Mode.READWRITE
