"""The file of stores: what is written is what is read, as of one moment, and it is there after a crash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client.partition_fetch import FetchedRecord
from penstock.streams.stores.errors import StoreError
from penstock.streams.stores.keys import parse_key
from penstock.streams.stores.storage import ChangelogBatch, Saved, Storage, StorageLockedError
from penstock.streams.stores.store_reader import KeyRange, StoreReader, TimeRange, UnknownStoreError

ID = b"1" * 16


def record(offset: int, key: object, value: object) -> FetchedRecord:
    """A value of bytes is as it is; None deletes."""
    shown = value if isinstance(value, bytes | None) else json.dumps(value).encode()
    return FetchedRecord(
        offset, 1000 + offset, key if isinstance(key, bytes | None) else json.dumps(key).encode(), shown, ()
    )


class Held:
    """A file with one store, `counts`."""

    def __init__(self, path: Path) -> None:
        self.storage = Storage(path, "shop", "cluster")
        self.reading = StoreReader(path)
        self.number = self.storage.begin("counts", ID, 0).id
        self.storage.reset(self.number, {0: 0})

    def apply(self, *records: FetchedRecord, partition: int = 0, is_at_end: bool = True) -> tuple[int, int]:
        change = ChangelogBatch(partition, records, records[-1].offset + 1, is_at_end)
        return self.storage.apply(self.number, [change], 0)

    def value(self, text: str) -> object:
        _, found = self.reading.get("counts", text)
        return None if found is None or found.value is None else json.loads(found.value)

    def keys(self, **wanted: str) -> list[object]:
        page = self.reading.keys("counts", KeyRange(**wanted), 100, None)
        return [json.loads(found.whole_key) for found in page.rows]


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    held = Held(tmp_path / "stores.sqlite")
    yield held
    held.reading.close()
    held.storage.close()


def saved(held: Held) -> Saved:
    (found,) = held.storage.stores()
    return found


def test_the_last_value_is_read_when_a_key_was_written_twice(held: Held) -> None:
    assert held.apply(record(0, "a", 1), record(1, "b", 1), record(2, "a", 2)) == (2, 0)
    assert held.apply(record(3, "a", 3)) == (2, 0)
    assert (held.value("a"), held.value("b")) == (3, 1)
    assert saved(held).position == {0: 4}


def test_a_key_is_gone_when_a_tombstone_was_read(held: Held) -> None:
    held.apply(record(0, "a", 1), record(1, "b", 1))
    assert held.apply(record(2, "a", None), record(3, "never", None)) == (1, 0)
    assert held.value("a") is None
    assert held.apply(record(4, "a", 5)) == (2, 0)


def test_a_record_is_counted_when_its_key_is_no_json(held: Held) -> None:
    assert held.apply(record(0, None, 1), record(1, b"\x00", 1), record(2, "a", 1)) == (1, 2)
    assert held.apply(record(3, b"x", 1)) == (1, 3)


def test_a_value_is_kept_as_bytes_when_it_is_no_json(held: Held) -> None:
    held.apply(record(0, "a", b'{"a":'), record(1, "b", b'"\xff"'), record(2, "c", b"[" * 50_000), record(3, "d", b""))
    found = [held.reading.get("counts", key)[1] for key in "abcd"]
    assert [each.raw for each in found if each] == [b'{"a":', b'"\xff"', b"[" * 50_000, b""]


def test_rows_come_in_the_order_of_their_keys_when_a_range_is_asked_for(held: Held) -> None:
    held.apply(*(record(number, key, number) for number, key in enumerate(["d", "a", "c", "b", "ab"])))
    assert held.keys() == ["a", "ab", "b", "c", "d"]
    assert held.keys(first="ab", last="c") == ["ab", "b", "c"]
    assert held.keys(prefix="a") == ["a", "ab"]
    assert held.keys(prefix="a", first="ab") == ["ab"]


def test_pages_hold_each_row_once_when_they_follow_each_other(held: Held) -> None:
    held.apply(*(record(number, number, number) for number in range(25)))
    after, seen = None, []
    while True:
        page = held.reading.keys("counts", KeyRange(first="3", last="20"), 7, after)
        seen += [json.loads(found.text) for found in page.rows]
        after = page.next
        if after is None:
            break
    assert seen == list(range(3, 21))


def test_windows_are_found_by_their_starts_when_keys_are_windowed(held: Held) -> None:
    windows = [(key, start) for key in ("DE", "FR") for start in range(0, 50, 10)]
    rows = [{"key": key, "start": start, "end": start + 10} for key, start in windows]
    held.apply(*(record(number, row, number) for number, row in enumerate(rows)))
    page = held.reading.windows("counts", "DE", TimeRange(10, 30), 2, None)
    assert [found.start for found in page.rows] == [10, 20]
    page = held.reading.windows("counts", "DE", TimeRange(10, 30), 2, page.next)
    assert ([found.start for found in page.rows], page.next) == ([30], None)
    page = held.reading.all_windows("counts", TimeRange(20, 30), 3, None)
    rest = held.reading.all_windows("counts", TimeRange(20, 30), 3, page.next)
    assert [(found.text, found.start) for found in (*page.rows, *rest.rows)] == [
        (b'"DE"', 20),
        (b'"FR"', 20),
        (b'"DE"', 30),
        (b'"FR"', 30),
    ]
    assert held.value('{"key":"FR","start":40,"end":50}') == 9
    assert held.keys(first="FR", last="FR") == rows[5:]


def test_a_partition_is_empty_when_it_is_read_anew(held: Held) -> None:
    held.apply(record(0, "a", 1))
    held.storage.reset(held.number, {1: 0})
    held.apply(record(0, "b", 1), partition=1)
    assert held.storage.reset(held.number, {0: 7}) == 1
    assert (held.keys(), saved(held).position, saved(held).restoring) == (["b"], {0: 7, 1: 1}, [0])


def test_a_store_is_ready_when_every_partition_was_at_its_end(held: Held) -> None:
    held.storage.reset(held.number, {1: 0})
    held.apply(record(0, "a", 1))
    assert not held.reading.get("counts", "a")[0].is_ready
    held.apply(record(0, "b", 1), partition=1, is_at_end=False)
    assert not held.reading.get("counts", "a")[0].is_ready
    held.apply(record(1, "b", 1), partition=1)
    assert held.reading.get("counts", "a")[0].is_ready


def test_nothing_of_it_is_there_when_a_store_is_dropped_or_begun_anew(held: Held) -> None:
    held.apply(record(0, "a", 1))
    again = held.storage.begin("counts", b"2" * 16, 0)
    assert held.value("a") is None
    assert (again.id != held.number, saved(held).topic_id) == (True, b"2" * 16)
    held.storage.drop("counts")
    with pytest.raises(UnknownStoreError):
        held.reading.get("counts", "a")


def test_a_page_ends_when_it_is_large_enough(held: Held) -> None:
    held.apply(*(record(number, number, "x" * 1_500_000) for number in range(4)))
    page = held.reading.keys("counts", KeyRange(), 100, None)
    assert (len(page.rows), page.next is not None) == (2, True)


def test_the_file_goes_on_when_it_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "stores.sqlite"
    held = Held(path)
    held.apply(record(0, "a", 1))
    with pytest.raises(StorageLockedError):
        Storage(path, "shop", "cluster")
    held.storage.close()
    storage = Storage(path, "shop", "cluster")
    assert [(each.name, each.position, each.rows) for each in storage.stores()] == [("counts", {0: 1}, 1)]
    storage.close()


@pytest.mark.parametrize("damage", [b"not a database at all" * 100, None])
def test_the_file_is_begun_anew_when_it_is_of_something_else(tmp_path: Path, damage: bytes | None) -> None:
    path = tmp_path / "stores.sqlite"
    Held(path).storage.close()
    if damage is not None:
        path.write_bytes(damage)
    storage = Storage(path, "shop", "another cluster")
    assert storage.stores() == []
    storage.close()


def test_a_key_is_found_when_it_is_long(held: Held) -> None:
    key = "k" * 200_000
    held.apply(record(0, key, 1))
    _, (found,) = held.reading.get_all("counts", [parse_key(json.dumps(key).encode())])
    assert found is not None
    assert found.offset == 0


def test_an_answer_is_refused_when_the_rows_of_its_keys_are_too_large_together(held: Held) -> None:
    held.apply(record(0, "large", "x" * 3_000_000), record(1, "huge", "x" * 9_000_000))
    large, huge = parse_key(b'"large"'), parse_key(b'"huge"')
    assert len(held.reading.get_all("counts", [huge])[1]) == 1  # alone it has to be answered
    with pytest.raises(StoreError) as refused:
        held.reading.get_all("counts", [large] * 1_000)
    assert refused.value.status == 413


def test_nobody_else_on_the_machine_reads_the_file_when_it_was_made(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "new" / "stores.sqlite", "shop", "cluster")
    storage.begin("counts", ID, 0)
    kept = [tmp_path / "new", *(tmp_path / "new").iterdir()]
    assert {path.name: path.stat().st_mode & 0o077 for path in kept if path.stat().st_mode & 0o077} == {}
    assert len(kept) >= 4  # the file, its log, its lock and their directory
    storage.close()
