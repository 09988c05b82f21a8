"""The options of `registry start`. Imports nothing: it is on the path to a quick start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class RegistryOptions(NamedTuple):
    listen: str | None = None
    bootstrap_server: str | None = None
    command_config: str | None = None
    config: str | None = None
    set: tuple[str, ...] = ()
    insecure: bool = False


_INSECURE = "--insecure"
_FLAGS = {f"--{name.replace('_', '-')}": name for name in RegistryOptions._fields if f"--{name}" != _INSECURE}
_FLAGS["-b"] = "bootstrap_server"


def parse_registry_arguments(arguments: Sequence[str]) -> RegistryOptions | None:
    """The options of a plain `registry start --name value...`; None for anything that the full parser should see."""
    if list(arguments[:2]) != ["registry", "start"]:
        return None
    values: dict[str, str] = {}
    settings: list[str] = []
    rest = [argument for argument in arguments[2:] if argument != _INSECURE]
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        name = _FLAGS.get(flag)
        if name is None or not (equals or rest):
            return None
        value = value if equals else rest.pop(0)
        if name == "set":
            settings.append(value)
        else:
            values[name] = value
    return RegistryOptions(
        values.get("listen"),
        values.get("bootstrap_server"),
        values.get("command_config"),
        values.get("config"),
        tuple(settings),
        _INSECURE in arguments,
    )
