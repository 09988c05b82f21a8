"""What a start finds of its data directories: how they were left, and whether one of them is gone.

The image has the ids of the directories that the broker had when it joined last. One that is missing now was lost: its
disk was replaced, or it was taken out of `log.dirs`. Replicas that were there count as lost, and those in other
directories do not (`Partitions.has_lost_directory`). A broker that comes back with other directories alone is left to
the controller, who takes it out of all in-sync sets.

The broker tells the id of a lost directory on as long as an in-sync replica of it is without a log. Otherwise the next
start would take the replica for a new one, and an empty log would lead.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from penstock.cluster.image import MetadataImage
from penstock.cluster.metadata import Disks
from penstock.core.types import TopicPartition, format_topic_id
from penstock.log.directories.log_directories import LogDirectories
from penstock.log.formats import names
from penstock.log.formats.metadata_files import decode_clean_shutdown
from penstock.log.storage.files import Files


class FoundDisks(NamedTuple):
    disks: Disks  # as the broker tells of them
    has_lost_directory: bool


def read_clean_epoch(paths: Iterable[str], files: Files) -> int | None:
    """The broker's epoch in the marks of a clean shutdown. None where a data directory has no mark, or another one. A
    directory that was never used has nothing to be clean.
    """
    epochs = set()
    for path in map(Path, paths):
        try:
            epochs.add(decode_clean_shutdown(files.read_file(path / names.CLEAN_SHUTDOWN)))
        except FileNotFoundError:
            if files.exists(path / names.META_PROPERTIES):
                return None
        except OSError:
            return None
    return epochs.pop() if len(epochs) == 1 else None


def examine_disks(
    directories: LogDirectories, image: MetadataImage, node_id: int, restoration_id: str = ""
) -> FoundDisks:
    """`image` is from before the broker joins, `restoration_id` that of the restore that made it, if one did."""
    usable = [each for path, each in directories.directories.items() if path not in directories.offline]
    found = [each.identity.directory_id for each in usable]
    ids = [format_topic_id(each) for each in found if each is not None]
    compared = [each for each in usable if each.read_restoration() == restoration_id]
    seen = max((each.read_metadata_number() for each in compared), default=0)
    before = image.directories.get(node_id, ())
    lost = [each for each in before if each not in ids]
    is_any_left = len(lost) < len(before)
    if not lost or not is_any_left or not _is_any_without_log(directories, image, node_id):
        return FoundDisks(Disks(tuple(ids), not directories.logs, seen), has_lost_directory=False)
    return FoundDisks(Disks((*ids, *lost), not directories.logs, seen), has_lost_directory=True)


def _is_any_without_log(directories: LogDirectories, image: MetadataImage, node_id: int) -> bool:
    return any(
        node_id in state.isr and len(state.replicas) > 1
        for topic in image.topics.values()
        for state in topic.partitions
        if TopicPartition(topic.name, state.partition) not in directories.logs
    )
