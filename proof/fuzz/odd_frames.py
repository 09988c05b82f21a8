"""Requests of every API and version whose every name is long and new, and what they leave behind in this process.

The broker is stopped before the memory is measured. What is left is held by the process itself: caches of modules,
keyed by what clients sent. The living broker is judged in the same way by `proof.hostile.odd_names`.

How memory is judged: resident size after a garbage collection and after the C allocator was told to give back what is
free (`malloc_trim`), before and after.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.protocol.message import Message
from proof.fuzz.mutations import Fuzzer
from proof.memory import resident_size

MAX_HELD = 20 * 1024 * 1024
# The longest string there is, in every version; bytes may be longer.
_LONGEST, _LONGEST_BYTES = 32_767, 150_000


class OddFuzzer(Fuzzer):
    def __init__(
        self, seed: int, requests: Sequence[tuple[type[Message], int, int]], fixed: Mapping[str, Sequence[Any]]
    ) -> None:
        super().__init__(seed, requests, (), fixed=fixed)
        self._numbers = itertools.count()

    def _scalar(self, kind: str) -> Any:
        if kind == "string":
            # The last character makes each of them four bytes wide in Python's memory.
            return f"odd-{next(self._numbers)}-".ljust(_LONGEST - 4, "n") + "\N{BEAR FACE}"
        if kind == "bytes":
            return b"%d".ljust(_LONGEST_BYTES, b"n") % next(self._numbers)
        return super()._scalar(kind)


def settled_size() -> int:
    """The resident size of this process without what is free."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # glibc
        trim(0)
    return resident_size()
