"""Decides whether the leader may store a batch, and in what form. `appender` writes.

The order of the checks and the codes are Kafka's, so that a client gets the same error in the same case. Records stay
unopened unless a check of the topic needs them: keys on compacted topics, a lower bound on timestamps.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.log_settings import NO_LIMIT, LogSettings
from penstock.core.types import NO_TIMESTAMP, Buffer
from penstock.log.state.origin import Origin
from penstock.protocol import batch as batches
from penstock.protocol.batch import BatchHeader
from penstock.protocol.compression import CODEC_NAMES, Codec, compress
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.records import iterate_outlines, open_batch

_OLD_MAGICS = (0, 1)
_CLIENT, _LAST_CODEC = Origin.CLIENT, int(Codec.ZSTD)  # a lookup of an enum's member costs a call
_HEADER, _LEAST_RECORD = batches.HEADER_SIZE, batches.LEAST_RECORD_BYTES


@dataclass(frozen=True, slots=True)
class BatchRules:
    """The settings of a topic as rules for a batch, computed once instead of per append. A read of a slot's attribute
    takes a third of the time of a named tuple's field.
    """

    max_size: int
    segment_bytes: int
    is_log_append_time: bool
    before_max_ms: int
    after_max_ms: int
    needs_keys: bool
    opens_records: bool
    target_codec: Codec | None  # None: as the producer sent it
    compression_level: int | None
    may_convert: bool  # False: only the batch's own header can make `convert_batch` change it

    @classmethod
    def of(cls, settings: LogSettings) -> BatchRules:
        target = None if settings.compression_type == "producer" else CODEC_NAMES[settings.compression_type]
        levels: dict[Codec | None, int] = {
            Codec.GZIP: settings.compression_gzip_level,
            Codec.LZ4: settings.compression_lz4_level,
            Codec.ZSTD: settings.compression_zstd_level,
        }
        checks_age = not settings.is_log_append_time and settings.message_timestamp_before_max_ms < NO_LIMIT
        return cls(
            max_size=settings.max_message_bytes,
            segment_bytes=settings.segment_bytes,
            is_log_append_time=settings.is_log_append_time,
            before_max_ms=settings.message_timestamp_before_max_ms,
            after_max_ms=settings.message_timestamp_after_max_ms,
            needs_keys=settings.is_compacted,
            opens_records=settings.is_compacted or checks_age,
            target_codec=target,
            compression_level=levels.get(target),
            may_convert=target is not None or settings.is_log_append_time,
        )


def check_batch(records: Buffer, rules: BatchRules, origin: Origin, now_ms: int) -> BatchHeader:
    """The header of the one batch in `records`; ApiError when the leader must refuse it.

    Costs 1.5 us for a small batch, then one pass of CRC over the rest (0.14 ms per MB). Fields are taken out of the
    header once: a field of a named tuple takes as long as five local variables. Tried: unpacking the four fields that
    most batches need instead of the whole header (0.2 us less, and every rare check unpacks again). Shown by the
    produce rows of `make bench`.
    """
    size = len(records)
    if size < batches.HEADER_SIZE:
        raise _too_short(size)
    header = batches.read_header(records)
    base_offset, length, _, magic, crc, attributes, last_delta, _, newest, producer_id, _, sequence, count = header
    if magic != batches.MAGIC:
        raise _wrong_magic(magic)
    if length + batches.LOG_OVERHEAD != size:
        raise _wrong_size(length + batches.LOG_OVERHEAD, size)
    is_client = origin is _CLIENT
    if is_client and base_offset != 0:
        raise ApiError(ErrorCode.INVALID_RECORD, f"a batch to be appended begins at offset 0, not {base_offset}")
    # A rejected marker would leave its transaction open for ever.
    if size > rules.max_size and not attributes & batches.CONTROL_FLAG:
        raise _too_large(size, rules.max_size)
    if batches.compute_crc(records, 0, size) != crc:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch does not match")
    if attributes & batches.COMPRESSION_MASK > _LAST_CODEC:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression codec {header.compression}")
    if last_delta != count - 1 or count <= 0:
        raise _wrong_count(header)
    if count * _LEAST_RECORD > size - _HEADER and not batches.can_hold(
        size - _HEADER, count, attributes & batches.COMPRESSION_MASK
    ):
        raise _too_many_records(size - _HEADER, count)
    if is_client and (
        attributes & batches.CONTROL_FLAG
        or (producer_id >= 0 and sequence < 0)
        or rules.is_log_append_time
        or rules.opens_records
        or newest - now_ms > rules.after_max_ms
    ):
        _check_client_batch(records, header, rules, now_ms)
    return header


def _check_client_batch(records: Buffer, header: BatchHeader, rules: BatchRules, now_ms: int) -> None:
    """Called where one of these errors is possible; orders them."""
    if header.attributes & batches.CONTROL_FLAG:
        raise ApiError(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"producer {header.producer_id} sends the sequence number {header.base_sequence}",
        )
    if rules.is_log_append_time:
        if header.attributes & batches.LOG_APPEND_TIME_FLAG:
            raise ApiError(ErrorCode.INVALID_TIMESTAMP, "a producer may not mark its batch as LogAppendTime")
    elif header.max_timestamp - now_ms > rules.after_max_ms:
        _check_records(records, header, rules, now_ms)
        # The header has a timestamp that no record has. It would go into the time index, so the batch is refused all
        # the same.
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, f"timestamp {header.max_timestamp} lies too far ahead of {now_ms}")
    if rules.opens_records:
        _check_records(records, header, rules, now_ms)


def _check_records(records: Buffer, header: BatchHeader, rules: BatchRules, now_ms: int) -> None:
    """An ApiError that names every bad record, if there is one."""
    errors: list[tuple[int, str]] = []
    code = ErrorCode.INVALID_RECORD
    oldest, newest = now_ms - rules.before_max_ms, now_ms + rules.after_max_ms
    for index, outline in enumerate(iterate_outlines(records)):
        timestamp = header.base_timestamp + outline.timestamp_delta
        if rules.needs_keys and not outline.has_key:
            errors.append((index, "a compacted topic takes no record without a key"))
        elif not rules.is_log_append_time and timestamp != NO_TIMESTAMP and not oldest <= timestamp <= newest:
            errors.append((index, f"timestamp {timestamp} is outside [{oldest}, {newest}]"))
            code = ErrorCode.INVALID_TIMESTAMP
    if errors:
        raise ApiError(code, f"{len(errors)} of {header.record_count} records were refused: {errors[0][1]}", errors)


def convert_batch(records: Buffer, header: BatchHeader, rules: BatchRules, now_ms: int) -> bytes | None:
    """The batch in its stored form where that differs from the sent form; None otherwise.

    compression.type asks for another codec: the records are recompressed, not decoded. LogAppendTime: the header gets
    the new time. A CreateTime topic removes the LogAppendTime mark. In each case the CRC is computed again.
    """
    recompresses = (
        rules.target_codec is not None
        and rules.target_codec != header.compression
        and not (header.is_control and header.compression == Codec.NONE)
    )
    is_restamped = rules.is_log_append_time or header.attributes & batches.LOG_APPEND_TIME_FLAG
    if not recompresses and not is_restamped:
        if len(records) > rules.segment_bytes:
            raise _too_large_for_segment(len(records), rules.segment_bytes)
        return None
    attributes, max_timestamp = header.attributes & ~batches.LOG_APPEND_TIME_FLAG, header.max_timestamp
    if rules.is_log_append_time:
        attributes, max_timestamp = attributes | batches.LOG_APPEND_TIME_FLAG, now_ms
    section: Buffer = memoryview(records)[batches.HEADER_SIZE :]
    if recompresses:
        assert rules.target_codec is not None
        attributes = attributes & ~batches.COMPRESSION_MASK | rules.target_codec
        opened = open_batch(records)[1]
        if not batches.can_hold(len(opened), header.record_count, Codec.NONE):
            raise _too_many_records(len(opened), header.record_count)
        section = compress(rules.target_codec, opened, rules.compression_level)
        size = batches.HEADER_SIZE + len(section)
        if size > rules.max_size:
            raise _too_large(size, rules.max_size)
    if batches.HEADER_SIZE + len(section) > rules.segment_bytes:
        raise _too_large_for_segment(batches.HEADER_SIZE + len(section), rules.segment_bytes)
    return batches.build(header._replace(attributes=attributes, max_timestamp=max_timestamp), section)


def _too_short(size: int) -> ApiError:
    if size == 0:
        return ApiError(ErrorCode.INVALID_RECORD, "there is no record batch to append")
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are too few for a batch")


def _wrong_magic(magic: int) -> ApiError:
    if magic in _OLD_MAGICS:
        return ApiError(ErrorCode.INVALID_RECORD, f"message format {magic} is no longer accepted; it must be 2")
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"there is no message format {magic}")


def _wrong_size(claimed: int, size: int) -> ApiError:
    if batches.HEADER_SIZE <= claimed < size:
        return ApiError(ErrorCode.INVALID_RECORD, "a partition takes exactly one record batch per request")
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"a batch says it has {claimed} bytes and comes with {size}")


def _too_large(size: int, limit: int) -> ApiError:
    return ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {size} bytes is larger than max.message.bytes {limit}")


def _too_large_for_segment(size: int, limit: int) -> ApiError:
    return ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, f"a batch of {size} bytes does not fit a segment of {limit}")


def _too_many_records(section_size: int, count: int) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, f"{section_size} bytes of records cannot be the {count} that are claimed")


def _wrong_count(header: BatchHeader) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_RECORD,
        f"a batch claims {header.record_count} records in {header.last_offset_delta + 1} offsets",
    )
