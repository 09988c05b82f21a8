"""The inside of the cleaner's process: takes a request, cleans, answers; ends when its broker is gone.

The process reads segments and writes `.cleaned` files, and does nothing else: the broker alone gives final names. So
whatever becomes of the process, at any moment, the log is unchanged.
"""

from __future__ import annotations

import errno
import os
import select
import time
import traceback

from penstock.log.compaction.cleaned_segment import Replacement
from penstock.log.compaction.log_cleaner import Cleaning
from penstock.log.compaction.worker import messages
from penstock.log.compaction.worker.messages import Lines, Message
from penstock.log.storage.files import Files
from penstock.log.storage.scan import CorruptLogError

# The period of the check whether the broker still runs, and of the process's own sign of life.
_LOOK_SECONDS = 0.02
_ALIVE_SECONDS = 0.25
# The period while there is no work. The end of the pipe is noticed at once; this is for a broker whose pipe another
# process inherited.
_IDLE_SECONDS = 1.0
_READ_BYTES = 64 * 1024


class OwnerGoneError(Exception):
    """The broker has ended, or does not want this process any more."""


class Owner:
    """The broker at the other end of two pipes."""

    def __init__(self, read_fd: int, write_fd: int, process_id: int) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._process_id = process_id
        self._lines = Lines()
        self._poll = select.poll()
        self._poll.register(read_fd, select.POLLIN)

    def send(self, message: Message) -> None:
        data = memoryview(messages.encode(message))
        try:
            while data:
                data = data[os.write(self._write_fd, data) :]
        except BrokenPipeError:
            raise OwnerGoneError from None

    def receive(self, seconds: float) -> Message | None:
        """The next message; waits up to a limit. OwnerGoneError at the end of the pipe, or when the broker's process
        has ended although another process still holds the other end.
        """
        line = self._lines.take()
        if line is None and self._poll.poll(seconds * 1000):
            data = os.read(self._read_fd, _READ_BYTES)
            if not data:
                raise OwnerGoneError
            self._lines.feed(data)
            line = self._lines.take()
        if line is None:
            if os.getppid() != self._process_id:
                raise OwnerGoneError
            return None
        message = messages.decode(line)
        if message is None:
            raise ValueError("the broker sent what is no message")
        return message


class ByteRate:
    """log.cleaner.io.max.bytes.per.second: the rest after a number of bytes in a number of seconds."""

    def __init__(self, bytes_per_second: float) -> None:
        self.bytes_per_second = bytes_per_second
        self._owed_seconds = 0.0

    def change(self, bytes_per_second: float) -> None:
        """The rest owed to the old rate is forgotten: it may be hours."""
        self.bytes_per_second = bytes_per_second
        self._owed_seconds = 0.0

    def is_ahead(self, size: int, seconds: float) -> bool:
        return self.bytes_per_second > 0 and size > self.bytes_per_second * seconds

    def rest_after(self, size: int, seconds: float) -> float:
        """Unused time is not saved up: after a rest there is no burst."""
        if self.bytes_per_second > 0:
            self._owed_seconds = max(self._owed_seconds + size / self.bytes_per_second - seconds, 0.0)
        else:
            self._owed_seconds = 0.0
        return self._owed_seconds


def serve(owner: Owner) -> None:
    """Serves until the broker is gone."""
    owner.send({"ready": messages.VERSION})
    while True:
        message = owner.receive(_IDLE_SECONDS)
        if message is not None and "clean" in message:
            owner.send(_clean(owner, message))


def _clean(owner: Owner, message: Message) -> Message:
    """The final answer. The broker judges every failure."""
    try:
        os.chdir(message["clean"]["directory"])
        try:
            return _work(owner, message)
        finally:
            os.chdir("/")
    except CorruptLogError as error:
        return messages.encode_corruption(error)
    except OSError as error:
        return messages.encode_refusal(error)
    except MemoryError:
        return messages.encode_refusal(OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)))
    except OwnerGoneError:
        raise
    except Exception:  # noqa: BLE001 - the broker writes it to its log
        return {"failed": traceback.format_exc()}


def _work(owner: Owner, message: Message) -> Message:
    cleaning = Cleaning(messages.decode_request(message["clean"], Files()))
    pace = _Pace(owner, ByteRate(message["bytes_per_second"]))
    # Not closed when the broker is gone: a close would remove files (`__main__`).
    for step in cleaning.steps():
        if isinstance(step, Replacement):
            owner.send(messages.encode_replacement(step))
            pace.wait_to_proceed()
        else:
            pace.after(step)
    return messages.encode_outcome(cleaning.outcome)


class _Pace:
    """The work between two steps: rests as the byte rate demands, looks for messages, reports that the process is
    alive.
    """

    def __init__(self, owner: Owner, rate: ByteRate) -> None:
        self._owner = owner
        self._rate = rate
        self._size = 0
        self._looked_at = self._said_at = time.monotonic()

    def after(self, size: int) -> None:
        """Costs 0.2 us, except every 20 ms, or as often as a low rate demands."""
        self._size += size
        if time.monotonic() - self._looked_at >= _LOOK_SECONDS or self._rate.is_ahead(self._size, _LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        now = time.monotonic()
        rest = self._rate.rest_after(self._size, now - self._looked_at)
        self._size, self._looked_at = 0, now
        while True:
            self._take(self._owner.receive(min(rest, _ALIVE_SECONDS)))
            now = time.monotonic()
            if now - self._said_at >= _ALIVE_SECONDS:
                self._owner.send({"alive": True})
                self._said_at = now
            rest = self._rate.rest_after(0, now - self._looked_at)
            self._looked_at = now
            if rest <= 0:
                return

    def wait_to_proceed(self) -> None:
        while True:
            message = self._owner.receive(_IDLE_SECONDS)
            self._take(message)
            if message is not None and "proceed" in message:
                break
        self._size, self._looked_at = 0, time.monotonic()

    def _take(self, message: Message | None) -> None:
        if message is not None and "bytes_per_second" in message:
            self._rate.change(message["bytes_per_second"])
