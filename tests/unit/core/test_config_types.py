from __future__ import annotations

import pytest

from penstock.core.config.types import ConfigError, ConfigKey, ConfigValue, Kind, format_number, format_value


def key(kind: Kind) -> ConfigKey:
    return ConfigKey("some.key", kind, None, "Text.")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Kind.INT, " 5 ", 5),
        (Kind.INT, "+5", 5),
        (Kind.INT, "-2147483648", -(2**31)),
        (Kind.SHORT, "32767", 32767),
        (Kind.LONG, "9223372036854775807", 2**63 - 1),
        (Kind.DOUBLE, "1d", 1.0),
        (Kind.DOUBLE, ".5", 0.5),
        (Kind.DOUBLE, "5e-1", 0.5),
        (Kind.BOOLEAN, "True", True),
        (Kind.LIST, "", ()),
        (Kind.LIST, " a , b,a ", ("a", "b")),
        (Kind.STRING, " x ", "x"),
        (Kind.PASSWORD, "secret", "secret"),
        (Kind.CLASS, "a.B", "a.B"),
    ],
)
def test_text_becomes_a_value_when_it_fits_the_kind(kind: Kind, text: str, value: ConfigValue) -> None:
    assert key(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Kind.INT, ""),
        (Kind.INT, "1_000"),
        (Kind.INT, "0x10"),
        (Kind.INT, "2147483648"),
        (Kind.INT, "9" * 5000),
        (Kind.INT, "1.0"),
        (Kind.SHORT, "32768"),
        (Kind.LONG, "9223372036854775808"),
        (Kind.DOUBLE, "NaN"),
        (Kind.DOUBLE, "Infinity"),
        (Kind.DOUBLE, "1e999"),
        (Kind.DOUBLE, "one"),
        (Kind.BOOLEAN, "1"),
        (Kind.LIST, "a,,b"),
        (Kind.LIST, ","),
    ],
)
def test_text_is_refused_with_the_key_when_it_does_not_fit(kind: Kind, text: str) -> None:
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
