"""Text, values and properties files: what goes in comes back."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.config.broker_config import BrokerConfig, ConfigError, log_settings
from penstock.core.config.changes import apply_changes
from penstock.core.config.describe import describe_broker, describe_topic
from penstock.core.config.resources import ConfigChange, ConfigOperation
from penstock.core.config.table import BROKER_KEYS, TOPIC_KEYS_BY_NAME
from penstock.core.config.types import ConfigKey, ConfigValue, format_number, format_value
from penstock.core.properties import format_properties, parse_properties

KEYS = st.sampled_from([*BROKER_KEYS.values(), *TOPIC_KEYS_BY_NAME.values()])
WORDS = st.sampled_from(
    ["compact", "delete", "producer", "true", "false", "CreateTime", "*", "1:2", "0.5", "", "-1", "1e9"]
)
TEXTS = st.one_of(st.text(max_size=30), st.integers().map(str), st.floats().map(str), WORDS)


@given(KEYS, TEXTS)
def test_value_comes_back_when_written_and_read_again(key: ConfigKey, text: str) -> None:
    value, refusal = _parsed(key, text)
    if refusal is not None:
        assert key.name in refusal.message
        return
    written = format_value(value)
    assert written is not None
    assert key.parse(written) == value


def _parsed(key: ConfigKey, text: str) -> tuple[ConfigValue, ConfigError | None]:
    try:
        return key.parse(text), None
    except ConfigError as error:
        return None, error


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_double_keeps_its_value_when_written_as_java_does(value: float) -> None:
    assert float(format_number(value)) == value


@given(st.dictionaries(st.text(), st.text(), max_size=5))
def test_settings_come_back_when_written_as_properties(settings: dict[str, str]) -> None:
    # Every character is escaped, which any reader of the format must undo.
    def escape(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))

    lines = [f"{escape(name)}={escape(value)}" for name, value in settings.items()]
    parsed = parse_properties("\n".join(lines))

    def joined(text: str) -> str:
        return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")

    assert {joined(name): joined(value) for name, value in parsed.items()} == settings


@given(st.dictionaries(st.text(), st.text(), max_size=4))
def test_settings_come_back_when_formatted_and_parsed(settings: dict[str, str]) -> None:
    assert parse_properties(format_properties(settings)) == settings


@given(st.text())
def test_any_text_is_read_or_refused_when_given_as_properties(text: str) -> None:
    with contextlib.suppress(ValueError):
        settings = parse_properties(text)
        assert all(isinstance(value, str) for value in settings.values())


@given(st.dictionaries(st.sampled_from(sorted(BROKER_KEYS)), TEXTS, max_size=4))
def test_broker_is_described_when_its_settings_were_accepted(properties: dict[str, str]) -> None:
    try:
        config = BrokerConfig.parse(properties)
    except ConfigError:
        return
    assert len(describe_broker(config)) == len(BROKER_KEYS)
    assert len(describe_topic(config, {})) == len(TOPIC_KEYS_BY_NAME)
    log_settings(config.topic_config({}))


@given(st.dictionaries(st.sampled_from(sorted(TOPIC_KEYS_BY_NAME)), TEXTS, max_size=4))
def test_topic_always_opens_when_its_settings_are_stored(overrides: dict[str, str]) -> None:
    config = BrokerConfig.parse({})
    lenient = config.stored_topic_config(overrides)
    log_settings(lenient)
    with contextlib.suppress(ConfigError):
        assert config.topic_config(overrides) == lenient


ELEMENTS = st.lists(st.sampled_from(["compact", "delete"]), min_size=1, max_size=3).map(",".join)
CHANGES = st.one_of(
    st.builds(ConfigChange, st.just("cleanup.policy"), st.just(ConfigOperation.DELETE), st.none()),
    st.builds(
        ConfigChange, st.just("cleanup.policy"), st.sampled_from([ConfigOperation(n) for n in (0, 2, 3)]), ELEMENTS
    ),
)


@given(st.lists(CHANGES, max_size=6))
def test_list_holds_what_a_set_would_when_changed_in_any_order(changes: list[ConfigChange]) -> None:
    settings = apply_changes({}, changes, TOPIC_KEYS_BY_NAME)
    expected: set[str] | None = None
    for _, operation, value in changes:
        given_elements = set(value.split(",")) if value else set()
        before = {"delete"} if expected is None else expected
        expected = {
            ConfigOperation.SET: given_elements,
            ConfigOperation.DELETE: None,
            ConfigOperation.APPEND: before | given_elements,
            ConfigOperation.SUBTRACT: before - given_elements,
        }[operation]
    values = BrokerConfig.parse({}).topic_config(settings)["cleanup.policy"]
    assert isinstance(values, tuple)
    assert set(values) == ({"delete"} if expected is None else expected)
