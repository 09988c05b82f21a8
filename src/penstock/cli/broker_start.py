"""Starting a broker: from options to properties to the server. Kept free of everything else: start-up must be quick."""

from __future__ import annotations

import gc

from penstock.cli.broker_options import StartOptions, StartOptionsError, start_properties
from penstock.core.words.failure_text import tell_error
from penstock.security_setup.places import security_directory, stays_secure


def start_broker(options: StartOptions) -> int:
    """Blocks until SIGTERM or SIGINT; returns the exit code."""
    announcement = ""
    try:
        properties = start_properties(options, _read_file(options.config))
        if options.set:
            from penstock.cli.output import warn_of_secrets

            warn_of_secrets(options.set, "Write it into a file, and give that with --config.")
        was_secure = stays_secure(properties)
        if options.secure or (was_secure and not options.insecure):
            properties, announcement = _secured(properties, is_asked=options.secure)
        elif was_secure:
            announcement = f"{security_directory(properties)} is left out: everybody who connects may do everything"
    except StartOptionsError as problem:
        tell_error(str(problem))
        return 2
    # What the modules consist of stays until the end: to look for garbage among it took 15 of 200 ms.
    gc.disable()
    from penstock.server.main import run_broker

    gc.freeze()
    gc.enable()
    return run_broker(properties, announcement=announcement)


def _secured(properties: dict[str, str], *, is_asked: bool) -> tuple[dict[str, str], str]:
    from penstock.security_setup.setup import SecureSetupError
    from penstock.security_setup.single import secure_single

    try:
        setup, secured = secure_single(properties, is_asked=is_asked)
    except SecureSetupError as error:
        raise StartOptionsError(str(error)) from None
    return secured, f"Clients need this file: penstock topics list --command-config {setup.client_file}"


def _read_file(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    from pathlib import Path

    from penstock.core.config.types import ConfigError
    from penstock.core.properties import read_properties

    try:
        return read_properties(Path(path))
    except ConfigError as error:
        raise StartOptionsError(str(error)) from None
