"""What a configuration key is: its kind, what it accepts, and how text becomes a value and back.

Texts of errors follow Kafka's `ConfigDef`, because users search for them.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

ConfigValue = int | float | str | bool | tuple[str, ...] | None


class ConfigError(Exception):
    """A setting is refused. The message names the key, the value and what would be accepted."""

    def __init__(self, message: str, *, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key
        self.message = message

    @classmethod
    def of_value(cls, key: str, value: object, reason: str) -> ConfigError:
        return cls(f"Invalid value {value} for configuration {key}: {reason}", key=key)


class ConfigKind(enum.IntEnum):
    """The value is the type code that DescribeConfigs carries."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(enum.StrEnum):
    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Importance(enum.StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class ConfigRule(Protocol):
    """What a key accepts beyond its kind."""

    def check(self, key: str, value: ConfigValue) -> None:
        """Raises ConfigError when the value is not allowed."""

    def __str__(self) -> str:
        """How the documentation states the rule."""


class Range(NamedTuple):
    low: int | None = None
    high: int | None = None

    def check(self, key: str, value: ConfigValue) -> None:
        if value is None:
            return
        assert isinstance(value, int | float)
        if self.low is not None and value < self.low:
            raise ConfigError.of_value(key, format_number(value), f"Value must be at least {self.low}")
        if self.high is not None and value > self.high:
            raise ConfigError.of_value(key, format_number(value), f"Value must be no more than {self.high}")

    def __str__(self) -> str:
        if self.high is None:
            return f"at least {self.low}"
        return f"{self.low} to {self.high}"


class RangeOr(NamedTuple):
    """A range, or one value outside it that has a meaning of its own."""

    low: int
    high: int
    other: int

    def check(self, key: str, value: ConfigValue) -> None:
        assert isinstance(value, int)
        if value != self.other and not self.low <= value <= self.high:
            reason = f"Value must be between {self.low} and {self.high} or equal to {self.other}"
            raise ConfigError.of_value(key, value, reason)

    def __str__(self) -> str:
        return f"{self.low} to {self.high}, or {self.other}"


class OneOf(NamedTuple):
    """One of a few words; for a list, each element is."""

    words: tuple[str, ...]

    def check(self, key: str, value: ConfigValue) -> None:
        elements = value if isinstance(value, tuple) else (value,)
        for element in elements:
            if element not in self.words:
                raise ConfigError.of_value(key, element, f"String must be one of: {', '.join(self.words)}")

    def __str__(self) -> str:
        return ", ".join(self.words)


class NeutralOnly(NamedTuple):
    """The one value that changes nothing, for a key whose feature is not served.

    Tools that copy a topic's settings write such keys with their defaults, so the neutral value is accepted. Any other
    value would promise a feature that is missing. Kafka refuses a number below `low` as well.
    """

    neutral: int | bool
    reason: str
    low: int | None = None

    def check(self, key: str, value: ConfigValue) -> None:
        Range(self.low).check(key, value)
        if value != self.neutral:
            raise ConfigError.of_value(key, format_value(value), f"{self.reason}, so it must be {self}")

    def __str__(self) -> str:
        return str(format_value(self.neutral))


class ThrottledReplicas:
    """`*`, or `partition:broker` pairs."""

    def check(self, key: str, value: ConfigValue) -> None:
        assert isinstance(value, tuple)
        if value in ((), ("*",)) or all(_REPLICA.fullmatch(element) for element in value):
            return
        form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        reason = f"{key} must be the literal '*' or a list of replicas in the following format: {form}"
        raise ConfigError.of_value(key, f"[{', '.join(value)}]", reason)

    def __str__(self) -> str:
        return "* or partition:broker pairs"


class Pattern(NamedTuple):
    """A text of a certain shape; empty means not set."""

    expression: str
    meaning: str

    def check(self, key: str, value: ConfigValue) -> None:
        if value and not re.fullmatch(self.expression, str(value)):
            raise ConfigError.of_value(key, value, f"Expected {self.meaning}")

    def __str__(self) -> str:
        return self.meaning


class Synonym(NamedTuple):
    """A broker key that gives a topic key its default; its number times `factor` is in the topic key's unit."""

    name: str
    factor: int = 1


class ConfigKey(NamedTuple):
    name: str
    kind: ConfigKind
    default: ConfigValue
    documentation: str
    rule: ConfigRule | None = None
    importance: Importance = Importance.MEDIUM
    mode: UpdateMode = UpdateMode.READ_ONLY
    synonyms: tuple[Synonym, ...] = ()

    @property
    def is_sensitive(self) -> bool:
        return self.kind is ConfigKind.PASSWORD

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    def parse(self, text: str) -> ConfigValue:
        """The typed value of a text, checked. Raises ConfigError."""
        value = _PARSERS[self.kind](self.name, text.strip(), text)
        if self.rule is not None:
            try:
                self.rule.check(self.name, value)
            except ConfigError:
                if not self.is_sensitive:
                    raise
                raise ConfigError.of_value(self.name, "[hidden]", f"Expected {self.rule}") from None
        return value

    def format(self, value: ConfigValue) -> str | None:
        return format_value(value)


def by_name(keys: Iterable[ConfigKey]) -> dict[str, ConfigKey]:
    table: dict[str, ConfigKey] = {}
    for key in keys:
        assert key.name not in table, f"{key.name} is in the table twice"
        table[key.name] = key
    return table


def format_value(value: ConfigValue) -> str | None:
    """Text of a value, as Kafka writes it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return format_number(value)


def format_number(value: float) -> str:
    """As Java writes it: integers plainly, doubles with a point, and an exponent from 10 million up or below 1/1000."""
    if isinstance(value, int):
        return str(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value:e}".partition("e")
    digits = repr(value).partition("e")[0].replace("-", "").replace(".", "").strip("0") or "0"
    sign = "-" if mantissa.startswith("-") else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{int(exponent)}"


_REPLICA = re.compile(r"[0-9]+:[0-9]+")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_COMMA = re.compile(r"\s*,\s*")
_INTEGER_BITS = {ConfigKind.SHORT: 15, ConfigKind.INT: 31, ConfigKind.LONG: 63}


def _parse_boolean(key: str, text: str, given: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ConfigError.of_value(key, given, "Expected value to be either true or false")


def _parse_integer(kind: ConfigKind, key: str, text: str, given: str) -> int:
    limit = 1 << _INTEGER_BITS[kind]
    # The length is checked first: turning a text of a million digits into a number takes minutes.
    if _INTEGER.fullmatch(text) and len(text) <= 40 and -limit <= int(text) < limit:
        return int(text)
    raise ConfigError.of_value(key, given, f"Not a number of type {kind.name}")


def _parse_double(key: str, text: str, given: str) -> float:
    match = _DOUBLE.fullmatch(text)
    # Kafka takes NaN, which passes every range check. No setting means anything with it, so it is refused here.
    if match is None or not math.isfinite(float(match[1])):
        raise ConfigError.of_value(key, given, "Not a number of type DOUBLE")
    return float(match[1])


def _parse_list(key: str, text: str, _given: str) -> tuple[str, ...]:
    if not text:
        return ()
    elements = tuple(_COMMA.split(text))
    if "" in elements:
        raise ConfigError(f"Configuration '{key}' values must not be empty.", key=key)
    return tuple(dict.fromkeys(elements))


def _parse_text(_key: str, text: str, _given: str) -> str:
    return text


_PARSERS: dict[ConfigKind, Callable[[str, str, str], ConfigValue]] = {
    ConfigKind.BOOLEAN: _parse_boolean,
    ConfigKind.STRING: _parse_text,
    ConfigKind.INT: lambda key, text, given: _parse_integer(ConfigKind.INT, key, text, given),
    ConfigKind.SHORT: lambda key, text, given: _parse_integer(ConfigKind.SHORT, key, text, given),
    ConfigKind.LONG: lambda key, text, given: _parse_integer(ConfigKind.LONG, key, text, given),
    ConfigKind.DOUBLE: _parse_double,
    ConfigKind.LIST: _parse_list,
    ConfigKind.CLASS: _parse_text,
    ConfigKind.PASSWORD: _parse_text,
}
