"""The file names of a data directory. All of them are Kafka's, except for those that begin with `penstock.`."""

from __future__ import annotations

import os
import re

from penstock.core.types import TopicPartition

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_SUFFIXES = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)
INDEX_SUFFIXES = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
TEMPORARY = ".tmp"

PARTITION_METADATA = "partition.metadata"
LEADER_EPOCHS = "leader-epoch-checkpoint"
LOCK = ".lock"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
META_PROPERTIES = "meta.properties"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"

# In a data directory: the restore of the cluster's metadata with which its logs have been compared.
RESTORATION = "penstock.restoration"
# The last known position of the cluster's metadata log.
METADATA_NUMBER = "penstock.metadata-number"

# In the directory of a partition that came from another data directory, until the old directory is removed.
MOVED = "penstock.moved"
# Also there, with a unique suffix: the checkpoint files may have the entry of an earlier log with this name.
NAMESAKE = "penstock.namesake-"

DELETE_DIRECTORY = "-delete"
FUTURE_DIRECTORY = "-future"
STRAY_DIRECTORY = "-stray"

MAX_NAME_SIZE = 255  # the limit of common file systems
_SEGMENT_FILE = re.compile(r"(\d{20})(\.[a-z]+)")
_PARTITION_DIRECTORY = re.compile(r"(.+)-(\d+)")
_UNIQUE_DIRECTORY = re.compile(r"(.+-\d+)\.[^.]+")


def segment_file(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


def parse_segment_file(name: str) -> tuple[int, str] | None:
    """(base offset, suffix) of `00000000000000000042.log` and its like; None for any other name."""
    match = _SEGMENT_FILE.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def base_offset_of(name: str) -> int | None:
    """The offset that any segment file's name begins with, whatever suffixes follow."""
    head = name.split(".", 1)[0]
    return int(head) if len(head) == 20 and head.isdecimal() else None


def partition_directory(topic_partition: TopicPartition) -> str:
    return f"{topic_partition.topic}-{topic_partition.partition}"


def parse_partition_directory(name: str) -> TopicPartition | None:
    match = _PARTITION_DIRECTORY.fullmatch(name)
    return TopicPartition(match[1], int(match[2])) if match else None


def namesake_mark() -> str:
    """A new name each time."""
    return f"{NAMESAKE}{os.urandom(8).hex()}"


def is_namesake_mark(name: str) -> bool:
    return name.startswith(NAMESAKE)


def retired_directory(topic_partition: TopicPartition, *, is_kept: bool = False) -> str:
    """A name that a new topic of the same name never gets."""
    kind = STRAY_DIRECTORY if is_kept else DELETE_DIRECTORY
    suffix = f"-{topic_partition.partition}.{os.urandom(16).hex()}{kind}"
    return topic_partition.topic[: MAX_NAME_SIZE - len(suffix)] + suffix


def future_directory(topic_partition: TopicPartition) -> str:
    """The name of a copy that is to replace the log. It may be longer than a file system allows."""
    return f"{partition_directory(topic_partition)}.{os.urandom(16).hex()}{FUTURE_DIRECTORY}"


def parse_future_directory(name: str) -> TopicPartition | None:
    match = _UNIQUE_DIRECTORY.fullmatch(name.removesuffix(FUTURE_DIRECTORY))
    return parse_partition_directory(match[1]) if match and name.endswith(FUTURE_DIRECTORY) else None
