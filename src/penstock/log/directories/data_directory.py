"""One data directory: its owner, its lock, and the contents of its checkpoint files."""

from __future__ import annotations

import logging
from pathlib import Path

from penstock.core.types import TopicPartition, new_topic_id
from penstock.log.formats import names
from penstock.log.formats.checkpoints import decode_offsets
from penstock.log.formats.metadata_files import (
    UNKNOWN_BROKER_EPOCH,
    DirectoryIdentity,
    decode_meta_properties,
    encode_clean_shutdown,
    encode_meta_properties,
)
from penstock.log.storage.files import Files, OpenFile

logger = logging.getLogger(__name__)


class LogDirectoryError(Exception):
    """A data directory is unusable, and a start without it would be wrong: the operator must act."""


class DataDirectory:
    def __init__(self, path: Path, files: Files, lock: OpenFile, identity: DirectoryIdentity, was_clean: bool) -> None:
        self.path = path
        self.files = files
        self.identity = identity
        self.was_clean = was_clean
        self.is_new = False  # without an owner until now
        self._lock = lock
        self._written: dict[str, bytes] = {}
        self.recovery_points = self._read_checkpoint(names.RECOVERY_POINTS)
        self.log_start_offsets = self._read_checkpoint(names.LOG_START_OFFSETS)
        self.high_watermarks = self._read_checkpoint(names.HIGH_WATERMARKS)
        self.cleaned_ends = self._read_checkpoint(names.CLEANER_OFFSETS)
        tables = (self.recovery_points, self.log_start_offsets, self.high_watermarks, self.cleaned_ends)
        self.names_in_files = frozenset[TopicPartition]().union(*tables)  # as the start found them

    @classmethod
    def open(cls, path: Path, node_id: int, cluster_id: str, files: Files) -> DataDirectory:
        """Takes the lock and the clean-shutdown mark. OSError when the disk fails, LogDirectoryError when the directory
        has another owner.
        """
        files.make_directories(path)
        try:
            lock = files.lock(path / names.LOCK)
        except BlockingIOError as error:
            raise LogDirectoryError(
                f"{path} is in use by another broker; give this one a directory of its own or stop the other"
            ) from error
        try:
            is_new = not files.exists(path / names.META_PROPERTIES)
            identity = _identify(path, node_id, cluster_id, files)
            was_clean = files.exists(path / names.CLEAN_SHUTDOWN)
            # The mark is removed before any other step: if this start crashes half-way, the next start must not trust
            # it.
            if was_clean:
                files.unlink(path / names.CLEAN_SHUTDOWN)
                files.sync_directory(path)  # or a power failure could bring it back
            opened = cls(path, files, lock, identity, was_clean)
            opened.is_new = is_new
            return opened
        except BaseException:
            lock.close()
            raise

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """A damaged checkpoint costs time in recovery, not data."""
        try:
            content = self.files.read_file(self.path / name)
            offsets = decode_offsets(content)
        except FileNotFoundError:
            return {}
        except ValueError as error:
            logger.warning("%s is damaged and ignored: %s", self.path / name, error)
            return {}
        self._written[name] = content
        return offsets

    @property
    def written_checkpoints(self) -> dict[str, bytes]:
        """The last known contents of the checkpoint files."""
        return dict(self._written)

    def note_checkpoint(self, name: str, content: bytes) -> None:
        self._written[name] = content

    def forget_checkpoints(self) -> None:
        """Their write failed: the files' contents are unknown now, so all are written next time."""
        self._written.clear()

    def read_restoration(self) -> str:
        """The id that `note_restoration` has written; empty without one."""
        try:
            return self.files.read_file(self.path / names.RESTORATION).decode("utf-8", "replace").strip()
        except OSError:  # an unreadable note does not count
            return ""

    def note_restoration(self, restoration_id: str) -> None:
        self.files.write_atomically(self.path / names.RESTORATION, f"{restoration_id}\n".encode())

    def read_metadata_number(self) -> int:
        """The number of the metadata in the checkpoints; 0 where nothing is readable."""
        try:
            return int(self.files.read_file(self.path / names.METADATA_NUMBER))
        except (OSError, ValueError):
            return 0

    def mark_clean(self, broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        self.files.write_file(self.path / names.CLEAN_SHUTDOWN, encode_clean_shutdown(broker_epoch), sync=True)

    def give_back(self) -> None:
        """For a broker that does not start. A directory without an owner has none again: the operator may correct a
        mistyped id.
        """
        if not self.is_new:
            return
        try:
            self.files.unlink(self.path / names.META_PROPERTIES)
            self.files.sync_directory(self.path)
        except OSError as error:
            logger.warning("%s keeps the id of this broker: %s", self.path, error)

    def release(self) -> None:
        self._lock.close()


def _identify(path: Path, node_id: int, cluster_id: str, files: Files) -> DirectoryIdentity:
    """The owner of the directory: this broker by its meta.properties, or this broker from now on."""
    properties = path / names.META_PROPERTIES
    try:
        identity = decode_meta_properties(files.read_file(properties))
    except FileNotFoundError:
        identity = DirectoryIdentity(node_id, cluster_id, None)
    except ValueError as error:
        raise LogDirectoryError(f"{properties} cannot be read: {error}") from error
    if identity.cluster_id != cluster_id:
        raise LogDirectoryError(f"{path} belongs to cluster {identity.cluster_id}, not to {cluster_id}")
    if identity.node_id != node_id:
        raise LogDirectoryError(f"{path} belongs to node {identity.node_id}, not to {node_id}")
    if identity.directory_id is None:
        identity = identity._replace(directory_id=new_topic_id())
        files.write_atomically(properties, encode_meta_properties(identity))
    return identity
