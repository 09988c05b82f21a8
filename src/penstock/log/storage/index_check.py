"""Where a search in a segment begins: what the offset index says, if the log bears it out."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.log.storage.scan import CorruptLogError, parse_header
from penstock.protocol.batch import HEADER_SIZE

if TYPE_CHECKING:
    from penstock.log.storage.segment import Segment

logger = logging.getLogger(__name__)


def find_search_start(segment: Segment, offset: int) -> int:
    """The position of a batch that begins at or before `offset`.

    An index has no checksum, so what it leads to is looked at first (2 us): a damaged one would pass over records, or
    condemn a sound log, and is made anew instead.
    """
    position = segment.offset_index().lookup(offset)
    if position and not _is_batch_before(segment, position, offset):
        logger.warning("rebuilding the indexes of %s: the entry for offset %d is wrong", segment.log_file.path, offset)
        segment.rebuild_indexes()
        if not segment.is_active:
            segment.write_indexes()
        position = segment.offset_index().lookup(offset)
    return position


def _is_batch_before(segment: Segment, position: int, offset: int) -> bool:
    if not 0 <= position < segment.size:
        return False
    file = segment.open_file()
    try:
        header = parse_header(file.read(position, HEADER_SIZE), 0, position, segment.size, file.path)
    except CorruptLogError:
        return False
    return segment.base_offset <= header.base_offset <= offset
