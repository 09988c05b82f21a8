"""A schema registry for a command, and its refusals in words that say what to do."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli import output
from penstock.cli.errors import CliError, ExitCode, UsageError

if TYPE_CHECKING:
    from penstock.client.registry import RegistryAnswerError, RegistryClient

REGISTRY_VARIABLE = "PENSTOCK_REGISTRY"
DEFAULT_REGISTRY = "http://127.0.0.1:8081"
_URL = "schema.registry.url"

_UNREACHABLE_HINT = "Check --registry, or start one: penstock registry start"
LOGIN_ELSEWHERE = (
    f"basic.auth.user.info in the file given to --registry-config takes it, or {REGISTRY_VARIABLE} the URL."
)
_LOGIN_HINT = "Check basic.auth.user.info, bearer.auth.token or schema.registry.ssl.* in --registry-config."
_INCOMPATIBLE_HINT = "`penstock schemas check` lists what does not fit, and `penstock schemas diff` what has changed."
# By the registry's own codes. Only where its words alone would leave the user without a next step.
_HINTS = {
    404: "Is this the address of a registry? Apicurio's is http://HOST:8080/apis/ccompat/v7.",
    40401: "`penstock schemas list` shows the subjects; --deleted those that are deleted as well.",
    40402: "`penstock schemas list SUBJECT` shows its versions.",
    40403: "Register it: penstock schemas register SUBJECT FILE",
    40404: "Add --permanent to remove it for good.",
    40406: "Add --permanent to remove it for good.",
    409: _INCOMPATIBLE_HINT,
    40901: _INCOMPATIBLE_HINT,
    42201: "Correct the schema. What it refers to is named by --reference NAME=SUBJECT:VERSION.",
    42202: "A version is a number from 1, or latest.",
    42205: "The mode of the subject or of the registry forbids it: READONLY, or IMPORT without --force.",
    42206: "Delete the schemas that refer to it first.",
    42207: "The id belongs to another schema there. Import into an empty registry or another context.",
}


def open_registry(url: str | None, config: Path | None) -> RegistryClient:
    """Option beats file beats environment beats default. The caller closes the client."""
    from penstock.client.registry import RegistryClient, RegistrySettings
    from penstock.core.config.types import ConfigError
    from penstock.core.properties import read_properties

    output.warn_of_login(url, LOGIN_ELSEWHERE)
    try:
        properties = {} if config is None else read_properties(config)
        chosen = url or properties.get(_URL) or os.environ.get(REGISTRY_VARIABLE) or DEFAULT_REGISTRY
        return RegistryClient(RegistrySettings.of_properties({**properties, _URL: chosen}))
    except ConfigError as error:
        raise UsageError(error.message, "Check --registry and the file given to --registry-config.") from None


@contextlib.contextmanager
def registry_errors_explained() -> Iterator[None]:
    from penstock.client.registry import RegistryAnswerError, RegistryUnreachableError
    from penstock.schemas.schema import InvalidSchemaError

    try:
        yield
    except RegistryUnreachableError as error:
        raise CliError(str(error), _UNREACHABLE_HINT, ExitCode.UNREACHABLE) from None
    except RegistryAnswerError as error:
        raise explain_refusal(error) from None
    except InvalidSchemaError as error:
        raise CliError(f"this is no schema: {error}", _HINTS[42201]) from None


def explain_refusal(error: RegistryAnswerError, subject: str = "") -> CliError:
    prefix = f"{subject}: " if subject else ""
    if error.is_refused_login:
        return CliError(f"{prefix}{error.message}", _LOGIN_HINT, ExitCode.UNREACHABLE, str(error.code))
    hint = _HINTS.get(error.code, "")
    return CliError(f"{prefix}{error.message} ({error.code})", hint, name=str(error.code))
