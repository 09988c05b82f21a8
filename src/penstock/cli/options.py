"""The options many commands share, and the decorator that gives a command its cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from penstock.cli.access.client_properties import translate_client_properties
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.errors import LEADERLESS, CliError, ExitCode, UsageError, explain_exception, hint_for
from penstock.cli.output import warn_of_secrets
from penstock.cli.text import parse_settings
from penstock.core.words.visible_text import harmless

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE = "PENSTOCK_BOOTSTRAP"

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def brokers_option(help_text: str) -> Any:
    """The option that names brokers. Kafka's clients say `servers`, its tools `server`."""
    return typer.Option(
        "--bootstrap-server", "--bootstrap-servers", "-b", metavar="HOST:PORT,...", help=help_text, show_default=False
    )


_BootstrapServer = Annotated[
    str | None, brokers_option(f"Brokers to start from.  [default: ${BOOTSTRAP_VARIABLE} or {DEFAULT_BOOTSTRAP}]")
]
_CommandConfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Property file with client settings, as Kafka's tools take it.")
]
_Settings = Annotated[
    list[str] | None, typer.Option("-X", metavar="KEY=VALUE", help="A librdkafka setting; beats --command-config.")
]


def _option(name: str, annotation: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=None)


_CONNECTION_PARAMETERS = (
    _option("bootstrap_server", _BootstrapServer),
    _option("command_config", _CommandConfig),
    _option("settings", _Settings),
)


def on_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Replaces the command's `cluster` parameter by the options that say which cluster, the same for every command.

    A parameter whose type is a dataclass is a group of options: each field becomes an option of the command, in its
    place, and the command is given the group.
    """
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "cluster"]
    groups = {parameter.name: _options_of(parameter.annotation) for parameter in own if _is_group(parameter)}
    options = [option for parameter in own for option in groups.get(parameter.name, [parameter])]
    connection_names = [parameter.name for parameter in _CONNECTION_PARAMETERS]

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        cluster = choose_cluster(**{name: arguments.pop(name) for name in connection_names})
        for name, fields in groups.items():
            given = {field.name: arguments.pop(field.name) for field in fields}
            arguments[name] = signature.parameters[name].annotation(**given)
        try:
            with _kafka_errors_explained():
                command(cluster=cluster, **arguments)
        except CliError as error:
            if error.exit_code is ExitCode.UNREACHABLE and cluster.errors:
                error.message += f" ({cluster.errors[-1]})"  # what the library noticed in the background is the reason
            if error.name == LEADERLESS:
                from penstock.cli.access.leaderless import why_no_leader

                error.hint = why_no_leader(cluster)
            raise

    keyword_only = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
    run.__signature__ = signature.replace(parameters=[*keyword_only, *_CONNECTION_PARAMETERS])  # type: ignore[attr-defined]
    return run


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The groups of options of `on_cluster`, for a command that has no cluster."""
    signature = inspect.signature(command, eval_str=True)
    own = list(signature.parameters.values())
    groups = {parameter.name: _options_of(parameter.annotation) for parameter in own if _is_group(parameter)}
    options = [option for parameter in own for option in groups.get(parameter.name, [parameter])]

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        for name, fields in groups.items():
            given = {field.name: arguments.pop(field.name) for field in fields}
            arguments[name] = signature.parameters[name].annotation(**given)
        command(**arguments)

    keyword_only = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
    run.__signature__ = signature.replace(parameters=keyword_only)  # type: ignore[attr-defined]
    return run


def _is_group(parameter: inspect.Parameter) -> bool:
    return isinstance(parameter.annotation, type) and dataclasses.is_dataclass(parameter.annotation)


def _options_of(group: type) -> list[inspect.Parameter]:
    return list(inspect.signature(group, eval_str=True).parameters.values())


@contextlib.contextmanager
def _kafka_errors_explained() -> Iterator[None]:
    """Turns an error of a client library into a sentence for the user, whatever call failed. A library refuses some
    values before it asks a broker.
    """
    from confluent_kafka import KafkaException

    from penstock.protocol.errors import ApiError

    try:
        yield
    except KafkaException as error:
        raise explain_exception(error) from error
    except ApiError as error:
        raise CliError(error.message, hint_for(error.code.name), name=error.code.name) from error
    except OverflowError as error:
        if not _is_by_librdkafka(error) and not _has_librdkafka_at_hand(error):
            raise
        raise UsageError(f"a number is beyond what Kafka's protocol can carry: {error}") from error
    except ValueError as error:
        if not _is_by_librdkafka(error):
            raise
        raise UsageError(str(error)) from error


def _is_by_librdkafka(error: Exception) -> bool:
    """Raised in its Python package, not in our code."""
    return _is_of_librdkafka(str(_innermost_frame(error).f_globals.get("__name__", "")))


def _has_librdkafka_at_hand(error: Exception) -> bool:
    """Its types in C have no frame of their own: what they raise seems to come from the function that uses them. Ours
    import them where they use them, so such a function has one in a variable.
    """
    values = _innermost_frame(error).f_locals.values()
    return any(_is_of_librdkafka((each if isinstance(each, type) else type(each)).__module__) for each in values)


def _innermost_frame(error: Exception) -> FrameType:
    return list(traceback.walk_tb(error.__traceback__))[-1][0]


def _is_of_librdkafka(module: str) -> bool:
    """`cimpl` is what its types in C call their module."""
    return module.partition(".")[0] in ("confluent_kafka", "cimpl")


def choose_cluster(
    bootstrap_server: str | None, command_config: Path | None, settings: list[str] | None
) -> ClusterClient:
    """Option beats file beats environment beats default."""
    warn_of_secrets(settings, "Write it into a file, and give that with --command-config.")
    chosen = translate_client_properties(read_client_properties(command_config)) if command_config else {}
    chosen.update(parse_settings(settings))
    servers = (
        bootstrap_server
        or chosen.pop("bootstrap.servers", None)
        or os.environ.get(BOOTSTRAP_VARIABLE)
        or DEFAULT_BOOTSTRAP
    )
    chosen.pop("bootstrap.servers", None)
    return ClusterClient(servers, chosen)


def read_client_properties(path: Path) -> dict[str, str]:
    from penstock.core.config.types import ConfigError
    from penstock.core.properties import read_properties

    try:
        return read_properties(path)
    except ConfigError as error:
        raise UsageError(str(error), "Check the file given to --command-config.") from None


def read_text(path: str) -> str:
    """A file, or what comes in by `-`."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        text.encode()  # where the locale says nothing, Python lets every byte in
        return text
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeError:
        raise UsageError(f"{'the input' if path == '-' else path} is not a text file") from None


def confirm(question: str, yes: bool) -> None:
    """Asks before something is lost. A script has nobody to ask, so it must say --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Nobody is there to answer.", "Add --yes.")
    if not typer.confirm(harmless(question), err=True):  # what a command prints may be read by a program
        sys.stderr.write("Nothing was changed.\n")
        raise typer.Exit(ExitCode.FAILURE)
