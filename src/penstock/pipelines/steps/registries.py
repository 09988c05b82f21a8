"""The registry of a step: its address, its refusals as errors, and a watch for newer versions of a subject."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.client.registry import RegistryAnswerError, RegistryClient, RegistryClientError, RegistryUnreachableError
from penstock.core.config.types import ConfigError
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.payloads.formats import RegistryAddress
from penstock.pipelines.pipeline import Settings

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

_PREFIX = "schema.registry."
_URL = "schema.registry.url"
# As Kafka's clients name them: the login that basic.auth.credentials.source=SASL_INHERIT takes.
_SHARED = ("sasl.",)
# How often the subject of a pipeline that follows it is looked up: new columns are there within seconds, and a hundred
# pipelines are nothing to a registry.
LOOK_EVERY_S = 3.0


def address_of(registry: str | Mapping[str, str] | None, settings: Settings) -> RegistryAddress:
    """The step's registry, or else the settings'. Raises PipelineError."""
    given = settings.registry if registry is None else registry
    properties = {"url": given} if isinstance(given, str) else given
    named = {
        name if name.startswith((_PREFIX, *_SHARED)) else _PREFIX + name: value for name, value in properties.items()
    }
    if not named.get(_URL):
        raise PipelineError(
            "no schema registry is named",
            "Say --set registry.url=http://HOST:8081, or registry='http://HOST:8081' in the step.",
        )
    try:
        return RegistryAddress.of(named)
    except ConfigError as error:
        raise PipelineError(f"the schema registry cannot be used: {error}") from error


@contextmanager
def refusals_told() -> Iterator[None]:
    """The registry's refusal or silence as the pipeline's own error."""
    try:
        yield
    except RegistryUnreachableError as error:
        raise PipelineError(
            f"the schema registry cannot be reached: {error}", "Start it, or see what registry.url says."
        ) from error
    except RegistryAnswerError as error:
        hint = "See registry.basic.auth.user.info or registry.bearer.auth.token." if error.is_refused_login else ""
        raise PipelineError(f"the schema registry refuses: {error.message}", hint) from error


class SubjectWatch:
    """Checks, on a thread of its own, whether a subject has another latest version than `version`.

    It tries again if the registry does not answer: the run goes on with the version that it has."""

    def __init__(
        self, address: RegistryAddress, subject: str, version: int | None, every_s: float = LOOK_EVERY_S
    ) -> None:
        self._address = address
        self._subject = subject
        self._version = version
        self._every_s = every_s
        self._closing = threading.Event()
        self._found = threading.Event()
        self._thread = threading.Thread(target=self._look, name=f"penstock-watch-{subject}", daemon=True)
        self._thread.start()

    @property
    def has_newer(self) -> bool:
        return self._found.is_set()

    def close(self) -> None:
        """The thread may be waiting for an answer still. It ends after that, and changes nothing."""
        self._closing.set()

    def _look(self) -> None:
        is_told = False
        while not self._closing.wait(self._every_s):
            try:
                with RegistryClient(self._address.settings()) as client:
                    latest = client.latest(self._subject)
            except (RegistryClientError, ConfigError) as error:
                if not is_told:
                    logger.warning("no news of the subject %s, and the run goes on: %s", self._subject, error)
                is_told = True
                continue
            is_told = False
            if latest.version != self._version:
                logger.info("the subject %s has version %s now", self._subject, latest.version)
                self._found.set()
                return


def columns_of_batch(batch: pa.Array | tuple[pa.Array, ...]) -> tuple[pa.Array, ...]:
    """Spark hands a function of arrays a tuple, unless the function has one argument."""
    return batch if isinstance(batch, tuple) else (batch,)


def free_names(names: list[str], taken: tuple[str, ...]) -> list[str]:
    """Names of columns that are neither taken nor twice there, as Spark compares them: `_` is appended as needed."""
    used = {name.lower() for name in taken}
    free: list[str] = []
    for name in names:
        while name.lower() in used:
            name += "_"
        used.add(name.lower())
        free.append(name)
    return free
