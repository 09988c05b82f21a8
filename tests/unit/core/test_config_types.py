from __future__ import annotations

import pytest

from penstock.core.config.types import ConfigError, ConfigKey, ConfigKind, ConfigValue, format_number, format_value


def key(kind: ConfigKind) -> ConfigKey:
    return ConfigKey("some.key", kind, None, "Text.")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigKind.INT, " 5 ", 5),
        (ConfigKind.INT, "+5", 5),
        (ConfigKind.INT, "-2147483648", -(2**31)),
        (ConfigKind.SHORT, "32767", 32767),
        (ConfigKind.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigKind.DOUBLE, "1d", 1.0),
        (ConfigKind.DOUBLE, ".5", 0.5),
        (ConfigKind.DOUBLE, "5e-1", 0.5),
        (ConfigKind.BOOLEAN, "True", True),
        (ConfigKind.LIST, "", ()),
        (ConfigKind.LIST, " a , b,a ", ("a", "b")),
        (ConfigKind.STRING, " x ", "x"),
        (ConfigKind.PASSWORD, "secret", "secret"),
        (ConfigKind.CLASS, "a.B", "a.B"),
    ],
)
def test_text_becomes_a_value_when_it_fits_the_kind(kind: ConfigKind, text: str, value: ConfigValue) -> None:
    assert key(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ConfigKind.INT, ""),
        (ConfigKind.INT, "1_000"),
        (ConfigKind.INT, "0x10"),
        (ConfigKind.INT, "2147483648"),
        (ConfigKind.INT, "9" * 5000),
        (ConfigKind.INT, "1.0"),
        (ConfigKind.SHORT, "32768"),
        (ConfigKind.LONG, "9223372036854775808"),
        (ConfigKind.DOUBLE, "NaN"),
        (ConfigKind.DOUBLE, "Infinity"),
        (ConfigKind.DOUBLE, "1e999"),
        (ConfigKind.DOUBLE, "one"),
        (ConfigKind.BOOLEAN, "1"),
        (ConfigKind.LIST, "a,,b"),
        (ConfigKind.LIST, ","),
    ],
)
def test_text_is_refused_with_the_key_when_it_does_not_fit(kind: ConfigKind, text: str) -> None:
    with pytest.raises(ConfigError, match=r"some\.key") as refused:
        key(kind).parse(text)
    assert refused.value.key == "some.key"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (0.5, "0.5"),
        (2.0, "2.0"),
        (0.0, "0.0"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (1e7, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (-0.0001, "-1.0E-4"),
        (9999999.0, "9999999.0"),
    ],
)
def test_numbers_are_written_as_java_does_when_shown(value: float, text: str) -> None:
    assert format_number(value) == text


def test_values_are_written_as_kafka_does_when_shown() -> None:
    assert [format_value(each) for each in (None, True, False, "x", ("a", "b"), ())] == [
        None,
        "true",
        "false",
        "x",
        "a,b",
        "",
    ]
