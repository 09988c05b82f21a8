"""The options that say which schema registry, and the decorator that gives a command its client."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.access.registry import (
    DEFAULT_REGISTRY,
    REGISTRY_VARIABLE,
    open_registry,
    registry_errors_explained,
)

RegistryUrl = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL,...",
        help=f"Schema registries.  [default: ${REGISTRY_VARIABLE} or {DEFAULT_REGISTRY}]",
        show_default=False,
    ),
]
RegistryConfig = Annotated[
    Path | None,
    typer.Option(
        "--registry-config",
        metavar="FILE",
        help="Property file: schema.registry.url, basic.auth.user.info, bearer.auth.token, schema.registry.ssl.*",
    ),
]

_PARAMETERS = tuple(
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=None)
    for name, annotation in (("registry_url", RegistryUrl), ("registry_config", RegistryConfig))
)


def on_registry(command: Callable[..., None]) -> Callable[..., None]:
    """Replaces the command's `registry` parameter by the options that say which one. Its refusals are explained."""
    signature = inspect.signature(command, eval_str=True)
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in signature.parameters.items()
        if name != "registry"
    ]

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        url, config = arguments.pop("registry_url"), arguments.pop("registry_config")
        with open_registry(url, config) as registry, registry_errors_explained():
            command(registry=registry, **arguments)

    run.__signature__ = signature.replace(parameters=[*own, *_PARAMETERS])  # type: ignore[attr-defined]
    return run
