"""Checks the schemas of batches before the append, for topics that ask for the check.

Rules:
- No record of such a topic is appended unchecked: without a registry, or while none answers, producers get
  NOT_ENOUGH_REPLICAS. Of all codes only this code makes every producer send the same batch again later, without a
  search for another leader, and sure that nothing was written (Java: a RetriableException that is no
  InvalidMetadataException; librdkafka: retry, not persisted). After REQUEST_TIMED_OUT librdkafka takes the batch for
  one that may have been written.
- Where everything is known, small batches are checked in the turn of their request. Other batches are opened in a
  thread of their own, and other threads ask the registry: a registry that hangs takes those threads, and nothing else.
- A request waits for its check before the broker handles the next request of its connection, so batches of one producer
  keep their order.
- A verdict concerns one batch of a partition. A request that names such a partition twice is refused there, so that no
  batch is appended under the verdict of another.
- After a registry has not answered, no check asks for a moment: a waiting check holds up the other topics of the same
  connection.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from penstock.broker.schema_checks.verdicts import Asked, BadSchemasError, Verdicts
from penstock.core.clock import Clock
from penstock.core.config.sections import SchemaRegistrySection
from penstock.core.daemon_threads import DaemonThreads
from penstock.core.logs import Limiter, RateLimitedLog
from penstock.core.metrics.schema_counters import SchemaCheckMetrics
from penstock.log.append.validation import BatchRules, check_batch
from penstock.log.state.origin import Origin
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ApiError, ErrorCode

if TYPE_CHECKING:  # a broker without such topics does not load these
    from penstock.broker.schema_checks.batch_judge import Judge
    from penstock.broker.schema_checks.payloads import Claims
    from penstock.client.registry import RegistrySettings

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

# The size of a batch that takes less than a millisecond to open.
_SMALL_BYTES = 16 * 1024
_SMALL_RECORDS = 100
_READERS = 1
_ASKERS = 4
# The number of batches that wait for a thread, or for the work of their thread.
_MOST_WAITING = 64
# A registry answers in milliseconds; a registry that has to ask its leader, within a second.
_QUESTION_S = 3.0
# The time for all questions about a batch. Producers wait for 30 s before they take a broker for dead.
_PATIENCE_S = 10.0
_SILENCE_MS = 1_000


class SchemaChecks:
    """Loads nothing before a batch is checked. Raises ConfigError for settings that cannot be used."""

    def __init__(self, settings: SchemaRegistrySection, clock: Clock, metrics: SchemaCheckMetrics) -> None:
        self._settings = registry_settings(settings)
        self._clock = clock
        self._metrics = metrics
        self._judge: Judge | None = None
        self._readers = DaemonThreads(_READERS, "penstock-schema-reader")
        self._askers = DaemonThreads(_ASKERS, "penstock-schema-asker")
        self._waiting = 0
        self._silent_until_ms = 0
        self._limited_log = RateLimitedLog(logger, Limiter(), clock.monotonic_ms)

    def check(self, asked: Sequence[Asked]) -> Verdicts | Awaitable[Verdicts]:
        verdicts: Verdicts = {}
        later: list[Asked] = []
        if len(asked) > 1:
            verdicts = _refuse_named_twice(asked)
            asked = [each for each in asked if each.topic_partition not in verdicts]
        for each in asked:
            try:
                is_known = self._check_now(each)
            except ApiError as error:
                verdicts[each.topic_partition] = error
                continue
            if is_known:
                verdicts[each.topic_partition] = None
            else:
                later.append(each)
        return self._check_later(verdicts, later) if later else verdicts

    def close(self) -> None:
        self._readers.close()
        self._askers.close()

    # ------------------------------------------------------------------------------------ in the turn of the request

    def _check_now(self, asked: Asked) -> bool:
        """Whether the batch may be appended; False where the schemas are not known yet. Raises ApiError."""
        # In Kafka's order: where the log would refuse the batch anyway, the log's error comes first.
        header = check_batch(asked.batch, BatchRules.of(asked.settings), Origin.CLIENT, self._clock.now_ms())
        judge = self._find_judge()
        is_small = len(asked.batch) <= _SMALL_BYTES and header.record_count <= _SMALL_RECORDS
        if not is_small or header.compression != Codec.NONE:
            return False
        from penstock.broker.schema_checks.batch_judge import MustAskError

        try:
            self._raise_bad(judge.find_bad(_read(asked), may_ask=False))
        except MustAskError:
            return False
        return True

    def _find_judge(self) -> Judge:
        if self._judge is None:
            if self._settings is None:
                raise self._not_now("confluent.schema.registry.url is not set", "no schema registry is configured")
            self._judge = _new_judge(self._settings)
        return self._judge

    def _raise_bad(self, errors: list[tuple[int, str]]) -> None:
        if errors:
            self._metrics.refused_records += len(errors)
            raise BadSchemasError(errors)

    def _not_now(self, cause: str, text: str) -> ApiError:
        """The error of one batch."""
        self._metrics.unchecked_batches += 1
        self._limited_log.once_per(
            text, logging.WARNING, "records of a topic that checks schemas are refused for now", {"reason": cause}
        )
        return ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, f"the schemas cannot be checked: {text}")

    # ------------------------------------------------------------------------------------ in threads

    async def _check_later(self, verdicts: Verdicts, later: list[Asked]) -> Verdicts:
        outcomes = await asyncio.gather(*map(self._check_slowly, later))
        verdicts.update(zip((each.topic_partition for each in later), outcomes, strict=True))
        return verdicts

    async def _check_slowly(self, asked: Asked) -> ApiError | None:
        from penstock.broker.schema_checks.batch_judge import MustAskError

        judge = self._find_judge()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                claims = await self._run(self._readers, lambda: _read(asked))
                try:
                    # On the reader's thread, too: a batch may have tens of thousands of records.
                    bad = await self._run(self._readers, lambda: judge.find_bad(claims, may_ask=False))
                except MustAskError:
                    bad = await self._ask(judge, claims)
            self._raise_bad(bad)
        except ApiError as error:
            return error
        except TimeoutError:
            return self._not_now("no answer in time", "the schema registry does not answer")
        return None

    async def _ask(self, judge: Judge, claims: Claims) -> list[tuple[int, str]]:
        from penstock.broker.schema_checks.batch_judge import SilentRegistryError, TooManyQuestionsError
        from penstock.client.registry import RegistryClientError

        try:
            return await self._run(self._askers, lambda: self._find_bad(judge, claims))
        except TooManyQuestionsError:
            raise self._not_now("a batch names many schemas", "a batch names too many schemas at once") from None
        except (RegistryClientError, ModuleNotFoundError) as error:
            if not isinstance(error, SilentRegistryError):
                self._metrics.failed_questions += 1
            raise self._not_now(str(error), "the schema registry gives no answer") from None

    def _find_bad(self, judge: Judge, claims: Claims) -> list[tuple[int, str]]:
        """Runs on a thread: batches that have waited for the thread while the registry did not answer do not ask
        again.
        """
        from penstock.broker.schema_checks.batch_judge import SilentRegistryError
        from penstock.client.registry import RegistryClientError

        if self._clock.monotonic_ms() < self._silent_until_ms:
            raise SilentRegistryError("no answer a moment ago")
        try:
            return judge.find_bad(claims, may_ask=True)
        except RegistryClientError:
            self._silent_until_ms = self._clock.monotonic_ms() + _SILENCE_MS
            raise

    async def _run(self, threads: DaemonThreads, work: Callable[[], Result]) -> Result:
        if self._waiting >= _MOST_WAITING:
            raise self._not_now("too many batches wait", "too many batches wait for their check")
        self._waiting += 1
        try:
            return await asyncio.wrap_future(threads.submit(work))
        finally:
            self._waiting -= 1


def _refuse_named_twice(asked: Sequence[Asked]) -> Verdicts:
    counts = Counter(each.topic_partition for each in asked)
    return {
        topic_partition: ApiError(ErrorCode.INVALID_REQUEST, "the request names the partition more than once")
        for topic_partition, count in counts.items()
        if count > 1
    }


def _read(asked: Asked) -> Claims:
    from penstock.broker.schema_checks.payloads import read_claims, sides_of

    return read_claims(sides_of(asked.topic_partition.topic, asked.settings), asked.batch)


def _new_judge(settings: RegistrySettings) -> Judge:
    from penstock.broker.schema_checks.batch_judge import Judge
    from penstock.client.registry import RegistryClient
    from penstock.client.registry.transport import RegistryTransport
    from penstock.client.retries import RetryPolicy

    # Producers try again themselves.
    once = RetryPolicy(patience_s=0, first_pause_s=0, longest_pause_s=0)
    limited = dataclasses.replace(settings, timeout_s=_QUESTION_S)
    return Judge(RegistryClient(limited, transport=RegistryTransport(limited, retries=once)))


def registry_settings(section: SchemaRegistrySection) -> RegistrySettings | None:
    """None without an address. Raises ConfigError."""
    if not section.confluent_schema_registry_url:
        return None
    from penstock.client.registry import RegistrySettings

    names = {field: field.replace("_", ".").removeprefix("confluent.") for field in section._fields}
    return RegistrySettings.of_properties(
        {
            f"schema.registry.{name}" if name.startswith("ssl.") else name: str(value)
            for field, name in names.items()
            if (value := getattr(section, field))
        }
    )
