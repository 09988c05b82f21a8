"""What runs under kill -9: the process, the records it is fed, and what its outputs must hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from proof.pipeline import driver, streams_driver
from proof.pipeline.check import check_outputs, encode
from proof.pipeline.driver import DEAD, INPUT, OUTPUT
from proof.pipeline.streams_check import check_tables, record_of
from proof.pipeline.streams_driver import TOPICS


class Work(Protocol):
    @property
    def driver(self) -> str:
        """The module that is run."""

    @property
    def topics(self) -> Mapping[str, int]:
        """With their partitions: what is made before."""

    @property
    def promise(self) -> str:
        """What has been shown when nothing is wrong."""

    def record(self, number: int) -> dict[str, Any]:
        """As a producer takes it."""

    def check(self, directory: Path, servers: str, count: int) -> list[str]:
        """What is wrong once so many records are done."""


@dataclass(frozen=True, slots=True)
class PipelineWork:
    """Numbers to a topic, a Hive table and an SQL table."""

    driver: str = driver.__name__
    promise: str = "each record once in the topic, in Hive and in SQL"

    @property
    def topics(self) -> Mapping[str, int]:
        return {INPUT: 2, OUTPUT: 2, DEAD: 1}

    def record(self, number: int) -> dict[str, Any]:
        return {"topic": INPUT, "value": encode(number), "partition": number % self.topics[INPUT]}

    def check(self, directory: Path, servers: str, count: int) -> list[str]:
        return check_outputs(directory, servers, count)


@dataclass(frozen=True, slots=True)
class StreamsWork:
    """A join of tables, a windowed count and a foreign-key join."""

    driver: str = streams_driver.__name__
    promise: str = "both joins and the counts are what the records make"

    @property
    def topics(self) -> Mapping[str, int]:
        return TOPICS

    def record(self, number: int) -> dict[str, Any]:
        return record_of(number)

    def check(self, directory: Path, servers: str, count: int) -> list[str]:
        return check_tables(servers, count)
