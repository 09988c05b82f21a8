"""The options of `broker start` as broker properties. Imports nothing: it is on the path to a quick start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class StartOptions(NamedTuple):
    data: str | None = None
    listen: str | None = None
    config: str | None = None
    set: tuple[str, ...] = ()
    metrics: str | None = None
    log_format: str | None = None
    log_level: str | None = None
    secure: bool = False
    insecure: bool = False


LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")

_SWITCHES = ("--secure", "--insecure")  # these have no value
_FLAGS = {f"--{name.replace('_', '-')}": name for name in StartOptions._fields if f"--{name}" not in _SWITCHES}
_CHOICES = {"log_format": LOG_FORMATS, "log_level": LOG_LEVELS}


def parse_start_arguments(arguments: Sequence[str]) -> StartOptions | None:
    """The options of a plain `broker start --name value...`; None for anything that the full parser should see."""
    if list(arguments[:2]) != ["broker", "start"]:
        return None
    values: dict[str, Any] = {}  # texts, by the names of the fields
    settings: list[str] = []
    rest = [argument for argument in arguments[2:] if argument not in _SWITCHES]
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        name = _FLAGS.get(flag)
        if name is None or not (equals or rest):
            return None
        value = value if equals else rest.pop(0)
        if name in _CHOICES and value not in _CHOICES[name]:
            return None
        if name == "set":
            settings.append(value)
        else:
            values[name] = value
    secure, insecure = (switch in arguments for switch in _SWITCHES)
    return StartOptions(set=tuple(settings), secure=secure, insecure=insecure, **values)


class StartOptionsError(ValueError):
    """The options make no broker."""


def start_properties(options: StartOptions, file_properties: Mapping[str, str]) -> dict[str, str]:
    """File < the named options < --set. Kafka's server.properties may name everything, so no option is required."""
    properties = dict(file_properties)
    if options.data is not None:
        properties.pop("log.dir", None)
        properties["log.dirs"] = options.data
    if options.listen is not None:
        properties["listeners"] = listener(options.listen)
        # An address the file advertises belongs to the listener that was just replaced.
        properties.pop("advertised.listeners", None)
    if options.metrics is not None:
        properties["penstock.metrics.listen"] = options.metrics
    if options.insecure:
        properties["penstock.metrics.insecure"] = "true"
    if options.log_format is not None:
        properties["penstock.log.format"] = options.log_format
    if options.log_level is not None:
        properties["penstock.log.level"] = options.log_level
    for setting in options.set:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise StartOptionsError(f"--set {setting!r} is not key=value")
        properties[key.strip()] = _followed(key.strip(), value.strip())
    if not properties.get("log.dirs") and not properties.get("log.dir"):
        raise StartOptionsError("no data directory: give --data DIR, or log.dirs in --config or --set")
    return properties


def _followed(key: str, value: str) -> str:
    if "${" not in value:
        return value
    from penstock.core.words.secrets_seen import UnknownReferenceError, follow_references

    try:
        return follow_references(value)
    except UnknownReferenceError as error:
        raise StartOptionsError(f"--set {key}: {error}") from None


def listener(text: str) -> str:
    """`HOST:PORT` means a plaintext listener; a full `NAME://HOST:PORT` list stays as it is."""
    return ",".join(part if "://" in part else f"PLAINTEXT://{part}" for part in text.split(","))
