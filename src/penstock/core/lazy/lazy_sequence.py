"""Many elements that are taken in one turn and shown in many.

A request about a group with thousands of members or offsets copies the list at once, so that the answer is of one
moment. An element is translated for the client when the encoder reaches it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar, overload

Source = TypeVar("Source")
Target = TypeVar("Target")


class LazySequence(Sequence[Target], Generic[Source, Target]):
    """`sources` must not change any more, nor what `translate` looks at."""

    __slots__ = ("_sources", "_translate")

    def __init__(self, sources: Sequence[Source], translate: Callable[[Source], Target]) -> None:
        self._sources = sources
        self._translate = translate

    def __len__(self) -> int:
        return len(self._sources)

    @overload
    def __getitem__(self, index: int) -> Target: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Target]: ...
    def __getitem__(self, index: int | slice) -> Target | Sequence[Target]:
        if isinstance(index, slice):
            return LazySequence(self._sources[index], self._translate)
        return self._translate(self._sources[index])

    def __iter__(self) -> Iterator[Target]:
        return map(self._translate, self._sources)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))
