"""The file of rights, read again when it changes, so that an operator need not stop a registry to take a right away.

A broken or missing file leaves the rules unchanged: half of a file that is being written must neither lock every caller
out nor let strangers in.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from penstock.core.config.types import ConfigError
from penstock.http.files import LOOK_INTERVAL_S, Stamp, stamp_of
from penstock.registry.api.access import Access
from penstock.registry.api.rights import load_rights

logger = logging.getLogger(__name__)


class RightsFile:
    """Call `read` first, in a thread; run `watch` as a task."""

    def __init__(self, path: Path, access: Access) -> None:
        self._path = path
        self._access = access
        self._stamp: Stamp | None = None

    def read(self) -> None:
        """Raises ConfigError."""
        # Before the read of the file: the next look sees a write meanwhile.
        self._stamp = stamp_of(self._path)
        self._access.replace(load_rights(self._path))

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_INTERVAL_S)
            await self.look()

    async def look(self) -> None:
        if await asyncio.to_thread(stamp_of, self._path) == self._stamp:
            return
        try:
            await asyncio.to_thread(self.read)
        except ConfigError as error:
            logger.error("the file of rights cannot be used: the old rules stay", extra={"error": error.message})
            return
        logger.info("using the rules that are in the file of rights now")
