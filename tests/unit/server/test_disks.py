"""What a start makes of data directories that were left, replaced or taken away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.core.types import format_topic_id
from penstock.log.directories.log_directories import LogDirectories
from penstock.log.storage.files import Files
from penstock.server.disks import examine_disks, read_clean_epoch
from tests.unit.log.support import SMALL, TOPIC_ID, append, batch
from tests.unit.log.test_log_directories import CLUSTER, opened, partition


def image_of(*isrs: tuple[int, ...], directories: tuple[str, ...]) -> MetadataImage:
    states = tuple(PartitionState(index, (1, 2), isr, isr[0] if isr else -1) for index, isr in enumerate(isrs))
    topic = TopicImage("orders", TOPIC_ID, states, {})
    return replace(MetadataImage(CLUSTER), topics={"orders": topic}, directories={1: directories})


def ids_of(directories: LogDirectories) -> tuple[str, ...]:
    ids = (each.identity.directory_id for each in directories.directories.values())
    return tuple(format_topic_id(each) for each in ids if each is not None)


def test_lost_directory_is_told_on_while_an_in_sync_replica_of_it_has_no_log(tmp_path: Path) -> None:
    directories = opened(tmp_path / "a", tmp_path / "b")
    directories.create(partition(0), TOPIC_ID, SMALL)
    first, second = ids_of(directories)
    image = image_of((1, 2), (2, 1), directories=(first, "lost"))
    found = examine_disks(directories, image, 1)
    assert found.has_lost_directory
    assert found.disks.ids == (first, second, "lost")
    nothing_missing = image_of((1, 2), (2,), directories=(first, "lost"))
    found = examine_disks(directories, nothing_missing, 1)
    assert (found.has_lost_directory, found.disks.ids) == (False, (first, second))
    directories.close()


def test_all_is_left_to_the_controller_when_every_directory_is_another(tmp_path: Path) -> None:
    directories = opened(tmp_path / "a")
    found = examine_disks(directories, image_of((1, 2), directories=("lost", "lost too")), 1)
    assert (found.has_lost_directory, found.disks.ids, found.disks.are_empty) == (False, ids_of(directories), True)
    directories.close()


def test_shutdown_was_clean_when_the_one_directory_without_a_mark_is_new(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in "ab"]
    directories = opened(*map(Path, paths))
    append(directories.create(partition(0), TOPIC_ID, SMALL), batch("a"))
    directories.close(epoch=7)
    assert read_clean_epoch(paths, Files()) == 7
    assert read_clean_epoch([*paths, str(tmp_path / "new")], Files()) == 7
    assert read_clean_epoch([str(tmp_path / "new")], Files()) is None
    (tmp_path / "b" / ".kafka_cleanshutdown").unlink()
    assert read_clean_epoch(paths, Files()) is None
