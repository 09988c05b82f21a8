"""Compaction against the simplest thing that could be right: the list of everything that was ever appended.

Appends, tombstones, transactions, cleanings and restarts in any order. Whatever is left of the log must amount to the
same table, for a reader that begins anywhere; what is kept keeps its offset; nothing comes back.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.log.compaction.log_cleaner import CleanerLimits
from penstock.log.compaction.log_compaction import clean_log
from penstock.log.compaction.offset_map import ENTRY_BYTES
from penstock.log.partition_log import PartitionLog
from penstock.protocol.compression import Codec
from tests.unit.log.compacted import Found, batches, keyed, latest, read_keyed, roll, with_settings
from tests.unit.log.support import NOW, Disk, append, end_transaction, read_committed

KEYS = [*"abcdef", "a key that is longer than sixteen bytes", "another key that is longer than sixteen bytes"]
DELETE_RETENTION_MS = 1_000


class CompactionModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="penstock-compaction-"))
        self.disk = Disk(
            self.directory, settings=with_settings(segment_bytes=500, delete_retention_ms=DELETE_RETENTION_MS)
        )
        self.log: PartitionLog = self.disk.create()
        self.now_ms = NOW
        self.counter = 0
        self.sequence = 0
        self.is_open = False
        self.everything: dict[int, Found] = {}  # by offset
        self.pending: list[int] = []  # offsets of the open transaction
        self.aborted: set[int] = set()
        self.seen: set[Found] = set()  # what the last look at the log found

    def teardown(self) -> None:
        self.log.close(clean=False)
        shutil.rmtree(self.directory)

    def _note(self, base_offset: int, pairs: list[tuple[str, str | None]]) -> list[int]:
        for index, (key, value) in enumerate(pairs):
            self.everything[base_offset + index] = (base_offset + index, key, value)
        self.seen |= {self.everything[base_offset + index] for index in range(len(pairs))}
        return list(range(base_offset, base_offset + len(pairs)))

    def _pairs(self, changes: list[tuple[str, bool]]) -> list[tuple[str, str | None]]:
        self.counter += 1
        return [(key, None if is_gone else f"{self.counter}.{index}") for index, (key, is_gone) in enumerate(changes)]

    changes = st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=5)

    @rule(changes=changes, codec=st.sampled_from(Codec))
    def append_plain(self, changes: list[tuple[str, bool]], codec: Codec) -> None:
        pairs = self._pairs(changes)
        (offset,) = append(self.log, keyed(*pairs, codec=codec, timestamp=self.now_ms))
        self._note(offset, pairs)

    @rule(changes=changes)
    def append_in_transaction(self, changes: list[tuple[str, bool]]) -> None:
        pairs = self._pairs(changes)
        data = keyed(
            *pairs, timestamp=self.now_ms, producer_id=7, producer_epoch=0, base_sequence=self.sequence,
            is_transactional=True,
        )  # fmt: skip
        (offset,) = append(self.log, data)
        self.sequence += len(pairs)
        self.pending += self._note(offset, pairs)

    @rule(is_commit=st.booleans())
    def end(self, is_commit: bool) -> None:
        end_transaction(self.log, is_commit)
        if not is_commit:
            self.aborted |= set(self.pending)
        self.pending = []

    @rule()
    def seal(self) -> None:
        before = self.log.log_end_offset
        roll(self.log)
        filler = "x" * (self.log.settings.segment_bytes - 100)
        self._note(before, [("filler", filler), ("filler", filler)])

    @rule(keys=st.sampled_from([1, 3, 1_000]))
    def clean(self, keys: int) -> None:
        stable = self.log.last_stable_offset
        active = self.log.compaction.measure_dirt(self.now_ms).first_uncleanable_offset
        untouched = [each for each in read_keyed(self.log) if each[0] >= active]
        self.clean_within(CleanerLimits(memory=ENTRY_BYTES * keys, load_factor=1.0))
        assert self.log.compaction.cleaned_end is not None
        assert self.log.compaction.cleaned_end <= stable
        assert [each for each in read_keyed(self.log) if each[0] >= active] == untouched
        # A full map reaches the end: then every key is there once, and nothing of what was aborted.
        if self.log.compaction.cleaned_end == active:
            found = [each for each in read_keyed(self.log) if each[0] < active and each[0] not in self.pending]
            assert len({each[1] for each in found}) == len(found)
            assert not {each[0] for each in found} & self.aborted

    def clean_within(self, limits: CleanerLimits) -> None:
        clean_log(self.log.compaction, self.now_ms, limits)

    @rule(step_ms=st.sampled_from([1, DELETE_RETENTION_MS // 2, DELETE_RETENTION_MS]))
    def wait(self, step_ms: int) -> None:
        self.now_ms += step_ms

    @rule(is_clean=st.booleans())
    def restart(self, is_clean: bool) -> None:
        cleaned_end = self.log.compaction.cleaned_end
        self.disk.recovery_point = self.log.recovery_point
        self.log = self.disk.reopen(self.log) if is_clean else self.disk.crash(self.log)
        self.log.advance_high_watermark(self.log.log_end_offset)
        self.log.compaction.cleaned_end = cleaned_end

    @rule()
    def forget_how_far_it_was_cleaned(self) -> None:
        self.log.compaction.cleaned_end = None

    @invariant()
    def amounts_to_the_same_table(self) -> None:
        found = read_keyed(self.log)
        assert self.log.log_start_offset == 0
        assert [each[0] for each in found] == sorted({each[0] for each in found})
        assert set(found) <= self.seen, "a record came back, or changed"
        self.seen = set(found)
        committed = set(read_committed(self.log, 0)) - set(self.pending)
        decided = [each for offset, each in self.everything.items() if offset not in self.aborted]
        decided = [each for each in decided if each[0] < self.log.last_stable_offset]
        assert latest([each for each in found if each[0] in committed]) == latest(decided)

    @invariant()
    def reader_that_starts_anywhere_sees_the_latest(self) -> None:
        """A record that is the last of its key is there for everybody who begins at or before it."""
        last = {}
        for offset, (_, key, value) in self.everything.items():
            if offset not in self.aborted and offset < self.log.last_stable_offset:
                last[key] = (offset, value)
        for start in range(0, self.log.log_end_offset, 7):
            found = {each[0] for each in read_keyed(self.log, start)}
            assert {offset for offset, value in last.values() if offset >= start and value is not None} <= found

    @invariant()
    def batches_are_in_order(self) -> None:
        offset = 0
        for header, _ in batches(self.log):
            assert header.base_offset >= offset
            offset = header.next_offset


CompactionModel.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestCompactionModel = CompactionModel.TestCase
