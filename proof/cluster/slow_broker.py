"""A broker on a slow disk: `python -m proof.cluster.slow_broker --config FILE`.

Each write and each fsync takes as long as on a disk that is overloaded, or about to fail.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from penstock.core.properties import read_properties
from penstock.core.types import Buffer
from penstock.log.storage.files import Files, OpenFile, StrPath
from penstock.server.main import run_broker

_WRITE_S = 0.02
_SYNC_S = 0.3


class SlowFiles(Files):
    def open(self, path: StrPath, *, create: bool = False) -> OpenFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return SlowFile(os.open(path, flags, 0o644), str(path))

    def write_file(self, path: StrPath, data: Buffer, *, sync: bool = False) -> None:
        time.sleep(_WRITE_S)
        super().write_file(path, data, sync=sync)

    def sync_file(self, path: StrPath) -> None:
        time.sleep(_SYNC_S)
        super().sync_file(path)


class SlowFile(OpenFile):
    __slots__ = ()

    def write(self, buffers: Sequence[Buffer], position: int, size: int) -> None:
        time.sleep(_WRITE_S)
        super().write(buffers, position, size)

    def sync(self) -> None:
        time.sleep(_SYNC_S)
        super().sync()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    return run_broker(read_properties(parser.parse_args().config), files=SlowFiles())


if __name__ == "__main__":
    sys.exit(main())
