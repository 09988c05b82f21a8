from __future__ import annotations

import contextlib
import struct

import pytest

from penstock.core.types import TopicPartition
from penstock.log.state.origin import Origin
from penstock.log.state.producer_snapshot import decode_snapshot, encode_snapshot
from penstock.log.state.producer_state import BatchMetadata, ProducerState
from penstock.protocol.batch import BatchHeader, read_header
from penstock.protocol.errors import ApiError, ErrorCode
from tests.unit.log.support import NOW, batch, sequenced

MAX_SEQUENCE = 2**31 - 1


def header(sequence: int, count: int = 1, epoch: int = 0) -> BatchHeader:
    return read_header(sequenced(sequence, count, epoch=epoch))


def state_after(*headers: BatchHeader) -> ProducerState:
    state = ProducerState(TopicPartition("orders", 0))
    offset = 0
    for taken in headers:
        state.update(taken, offset, NOW)
        offset += taken.record_count
    return state


def code_for(state: ProducerState, taken: BatchHeader, origin: Origin = Origin.CLIENT) -> ErrorCode | None:
    try:
        assert state.admit(taken, origin) is None
    except ApiError as error:
        return error.code
    return None


def duplicate_of(state: ProducerState, taken: BatchHeader) -> BatchMetadata | None:
    with contextlib.suppress(ApiError):
        return state.admit(taken, Origin.CLIENT)
    return None


@pytest.mark.parametrize(
    ("before", "incoming", "code"),
    [
        ([], header(0), None),
        ([], header(500), None),
        ([header(0, 3)], header(3), None),
        ([header(0, 3)], header(4), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ([header(0, 3)], header(2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ([header(5, epoch=3)], header(0, epoch=4), None),
        ([header(5, epoch=3)], header(6, epoch=4), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ([header(5, epoch=3)], header(6, epoch=2), ErrorCode.INVALID_PRODUCER_EPOCH),
        ([header(MAX_SEQUENCE)], header(0), None),
        ([header(MAX_SEQUENCE)], header(1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ([header(MAX_SEQUENCE - 1, 4)], header(2), None),
    ],
)
def test_the_rules_hold_when_a_batch_follows(
    before: list[BatchHeader], incoming: BatchHeader, code: ErrorCode | None
) -> None:
    assert code_for(state_after(*before), incoming) == code


def test_sequences_are_not_checked_when_the_broker_writes_for_a_producer() -> None:
    state = state_after(header(5, epoch=1))
    assert code_for(state, header(77, epoch=1), Origin.COORDINATOR) is None
    assert code_for(state, header(77, epoch=0), Origin.COORDINATOR) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_one_of_the_last_five_is_recognised_when_it_comes_again() -> None:
    state = state_after(*(header(10 * index, 10) for index in range(6)))
    assert duplicate_of(state, header(0, 10)) is None
    for index in range(1, 6):
        found = duplicate_of(state, header(10 * index, 10))
        assert found is not None
        assert (found.base_offset, found.base_sequence) == (10 * index, 10 * index)
    assert duplicate_of(state, header(50, 9)) is None
    assert duplicate_of(state, header(51, 9)) is None
    assert duplicate_of(state, header(50, 10, epoch=1)) is None


def test_a_batch_across_the_wrap_is_recognised_when_it_comes_again() -> None:
    found = state_after(header(MAX_SEQUENCE - 1, 4)).admit(header(MAX_SEQUENCE - 1, 4), Origin.CLIENT)
    assert found is not None
    assert (found.base_sequence, found.last_sequence) == (MAX_SEQUENCE - 1, 1)


def test_a_batch_without_sequences_leaves_none_behind_when_the_broker_wrote_it() -> None:
    state = state_after(read_header(batch("a", "b", producer_id=7, producer_epoch=0)))
    assert state.entries[7].last_sequence == -1
    assert code_for(state, header(0)) is None
    assert code_for(state, header(5)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_writing_outside_the_transaction_is_refused_when_one_is_open() -> None:
    transactional = read_header(batch("a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True))
    state = state_after(transactional)
    assert state.first_unstable_offset == 0
    assert code_for(state, header(1)) == ErrorCode.INVALID_TXN_STATE


def test_the_snapshot_is_kafkas_when_encoded() -> None:
    data = encode_snapshot(state_after(header(0, 3), header(3, 2)).entries.values())
    assert data[:2] == b"\x00\x01"
    assert struct.unpack(">iqhiqiqiq", data[6:]) == (1, 7, 0, 4, 4, 1, NOW, -1, -1)
    (entry,) = decode_snapshot(data)
    assert (entry.producer_id, entry.last_sequence, entry.last_offset, entry.batches[0].base_sequence) == (7, 4, 4, 3)
    assert decode_snapshot(encode_snapshot([])) == []


def test_a_snapshot_is_refused_when_any_byte_of_it_is_wrong() -> None:
    data = encode_snapshot(state_after(header(0)).entries.values())
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x55
        with pytest.raises(ValueError):
            decode_snapshot(bytes(damaged))
        with pytest.raises(ValueError):
            decode_snapshot(data[:position])
    with pytest.raises(ValueError):
        decode_snapshot(data + b"x")


def test_batches_of_a_snapshot_are_known_when_the_producer_has_gone_on_since() -> None:
    """Its newest batch in the snapshot has expired, and what follows in the log has not."""
    entries = decode_snapshot(encode_snapshot(state_after(header(0)).entries.values()))
    state = ProducerState(TopicPartition("orders", 0))
    state.load(entries, 1)
    state.update(header(1), 1, NOW + 100)
    state.remove_expired(NOW + 100, 100)
    assert [each.last_sequence for each in state.entries[7].batches] == [0, 1]
    state.remove_expired(NOW + 200, 100)
    assert state.entries == {}
