"""The messages between the broker and the cleaner's process: one JSON object per line.

    broker   {"clean": request, "bytes_per_second": rate}
             {"proceed": true}              the replacement is in place
             {"bytes_per_second": rate}     the setting was changed
    process  {"ready": version}             once, when it has started
             {"alive": true}                every quarter of a second of work
             {"replacement": ...}           and then it waits until it may proceed
             {"done": outcome}, {"corrupt": ...}, {"refused": ...}, {"failed": text}

Paths are names within the partition's directory, which the process makes its working directory: when the directory is
renamed, because its topic is deleted, the process cannot write into another that has taken its name.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import Any

from penstock.core.types import TopicPartition
from penstock.log.compaction.batches import CleaningRules, LastRecord
from penstock.log.compaction.cleaned_segment import Replacement
from penstock.log.compaction.decisions import SegmentLimits, SourceSegment
from penstock.log.compaction.log_cleaner import CleanerLimits, CleaningOutcome, CleaningRequest, CleaningStatistics
from penstock.log.state.transaction_index import AbortedTransaction
from penstock.log.storage.files import Files
from penstock.log.storage.scan import CorruptLogError

VERSION = 1
# A request names every segment and every live producer of a log: a few megabytes where there are very many.
MAX_LINE_BYTES = 256 * 1024 * 1024

Message = dict[str, Any]
_HERE = "."


def encode(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Message | None:
    """None when the line is no message, such as the error output of an interpreter."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


class Lines:
    """Turns incoming bytes into complete lines."""

    def __init__(self) -> None:
        self._pending = b""
        self._complete: list[bytes] = []

    def feed(self, data: bytes) -> None:
        *complete, self._pending = (self._pending + data).split(b"\n")
        self._complete += complete
        if len(self._pending) > MAX_LINE_BYTES:
            raise ValueError(f"a line is longer than {MAX_LINE_BYTES} bytes")

    def take(self) -> bytes | None:
        return self._complete.pop(0) if self._complete else None

    def rest(self) -> bytes:
        """The last line without its end."""
        return self._pending


# ---- a request


def encode_request(request: CleaningRequest) -> Message:
    return {
        "topic": request.topic_partition.topic,
        "partition": request.topic_partition.partition,
        "directory": os.path.abspath(request.directory),
        "segment_limits": request.segment_limits,
        "sources": [each._replace(path=os.path.basename(each.path)) for each in request.sources],
        "first_dirty_offset": request.first_dirty_offset,
        "aborted": list(request.aborted),
        "now_ms": request.rules.now_ms,
        "delete_retention_ms": request.rules.delete_retention_ms,
        "last_records": [(producer_id, *last) for producer_id, last in request.rules.last_records.items()],
        "limits": request.limits,
    }


def decode_request(message: Message, files: Files) -> CleaningRequest:
    """For a process whose working directory is the partition's."""
    last_records = {producer_id: LastRecord(*last) for producer_id, *last in message["last_records"]}
    return CleaningRequest(
        topic_partition=TopicPartition(message["topic"], message["partition"]),
        directory=_HERE,
        files=files,
        segment_limits=SegmentLimits(*message["segment_limits"]),
        sources=[_source(*each) for each in message["sources"]],
        first_dirty_offset=message["first_dirty_offset"],
        aborted=[AbortedTransaction(*each) for each in message["aborted"]],
        rules=CleaningRules(message["now_ms"], message["delete_retention_ms"], last_records),
        limits=CleanerLimits(*message["limits"]),
    )


def _source(base_offset: int, end_offset: int, name: str, *rest: int) -> SourceSegment:
    return SourceSegment(base_offset, end_offset, f"{_HERE}/{name}", *rest)


# ---- answers; the broker puts the directory before the names again


def encode_replacement(replacement: Replacement) -> Message:
    return {"replacement": replacement._replace(directory=_HERE)}


def decode_replacement(fields: list[Any], directory: str) -> Replacement:
    _, base_offset, size, replaced, suffixes = fields
    return Replacement(directory, base_offset, size, tuple(replaced), tuple(suffixes))


def encode_outcome(outcome: CleaningOutcome) -> Message:
    return {"done": [outcome.end_offset, outcome.delete_horizon_ms, asdict(outcome.statistics)]}


def decode_outcome(fields: list[Any]) -> CleaningOutcome:
    end_offset, delete_horizon_ms, statistics = fields
    return CleaningOutcome(end_offset, delete_horizon_ms, CleaningStatistics(**statistics))


def encode_corruption(error: CorruptLogError) -> Message:
    return {"corrupt": [error.path, error.position, error.why]}


def decode_corruption(fields: list[Any], directory: str) -> CorruptLogError:
    path, position, why = fields
    return CorruptLogError(_located(path, directory), position, why)


def encode_refusal(error: OSError) -> Message:
    return {"refused": [error.errno, error.strerror or str(error), error.filename and str(error.filename)]}


def decode_refusal(fields: list[Any], directory: str) -> OSError:
    code, text, path = fields
    return OSError(code, text, path and _located(path, directory))


def _located(path: str, directory: str) -> str:
    return os.path.normpath(f"{directory}/{path}") if path == _HERE or path.startswith(f"{_HERE}/") else path
