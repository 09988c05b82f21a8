"""From the options of a service's start command to its properties."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.cli.output import warn_of_secrets
from penstock.cli.text import parse_settings

_BOOTSTRAP_VARIABLE = "PENSTOCK_BOOTSTRAP"
_SERVERS = "bootstrap.servers"


def start_properties(
    config: Path | None,
    command_config: Path | None,
    named: Mapping[str, str | None],
    set_: Sequence[str] | None,
    *,
    client_prefix: str,
    servers: str,
) -> dict[str, str]:
    """File < client file < the named options < --set. `servers` is the setting that the environment gives where no file
    and no option does. Raises ConfigError and UsageError.
    """
    from penstock.core.properties import read_properties

    warn_of_secrets(set_, "Write it into a file, and give that with --config or --command-config.")
    properties = {} if config is None else read_properties(config)
    if command_config is not None:
        client = read_properties(command_config)
        if _SERVERS in client:
            properties[servers] = client.pop(_SERVERS)
        properties |= {f"{client_prefix}{name}": text for name, text in client.items()}
    properties |= {name: text for name, text in named.items() if text is not None}
    if servers not in properties and os.environ.get(_BOOTSTRAP_VARIABLE):
        properties[servers] = os.environ[_BOOTSTRAP_VARIABLE]
    return properties | parse_settings(set_)
