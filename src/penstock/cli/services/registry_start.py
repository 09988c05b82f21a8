"""Starting a registry: from options to properties to the service."""

from __future__ import annotations

from pathlib import Path

from penstock.cli.errors import UsageError
from penstock.cli.services.start_options import RegistryOptions
from penstock.cli.services.start_properties import start_properties


def start_registry(options: RegistryOptions) -> int:
    """Blocks until SIGTERM or SIGINT; returns the exit code. Raises UsageError."""
    from penstock.core.config.types import ConfigError
    from penstock.core.extras import require

    require("registry", "penstock registry start")
    from penstock.http.service_process import run_service
    from penstock.registry.settings import RegistrySettings

    try:
        settings = RegistrySettings.parse(registry_properties(options))
    except ConfigError as error:
        raise UsageError(error.message, "Check --config, --command-config and --set.") from None
    from penstock.registry.server import RegistryServer

    return run_service("registry", settings.all, lambda: RegistryServer(settings))


def registry_properties(options: RegistryOptions) -> dict[str, str]:
    """File < client file < the named options < --set. Raises ConfigError and UsageError."""
    from penstock.registry.settings import CLIENT_PREFIX

    servers = f"{CLIENT_PREFIX}bootstrap.servers"
    return start_properties(
        None if options.config is None else Path(options.config),
        None if options.command_config is None else Path(options.command_config),
        {
            servers: options.bootstrap_server,
            "listeners": options.listen,
            "penstock.http.insecure": "true" if options.insecure else None,
        },
        options.set,
        client_prefix=CLIENT_PREFIX,
        servers=servers,
    )
