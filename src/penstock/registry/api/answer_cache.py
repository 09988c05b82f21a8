"""A cache of answers: those of schemas by id, guid and version, which every new client requests.

An answer holds while the state of the registry does not change. Any record of the log may change it: the next revision
clears the cache. Errors are not kept. Unknown parameters do not make another answer, and a client that makes up others
evicts only the least recently used answers.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from starlette.responses import Response

from penstock.registry.api.calls import Call, Handler

# Some 10,000 schemas of usual size.
_MOST_BYTES = 16 << 20
# The size of a row of the table beside its bytes.
_OVERHEAD_BYTES = 1_000

# The raw path and query, without unknown parameters.
Target = tuple[bytes, bytes]


def known_part(query: bytes, names: frozenset[bytes]) -> bytes:
    """The query without parameters of other names. A name with an escape in it may be any."""
    if not query:
        return query
    return b"&".join(field for field in query.split(b"&") if _is_known(field.partition(b"=")[0], names))


def _is_known(name: bytes, names: frozenset[bytes]) -> bool:
    return name in names or b"%" in name or b"+" in name


@dataclass(frozen=True, slots=True)
class CachedHandler:
    """The handler of a frequent operation, whose answer to a target stays the same while nothing is written."""

    handler: Handler

    async def __call__(self, call: Call) -> Response:
        return await self.handler(call)


class AnswerCache:
    """A request with a cached answer costs hardly more than an empty request: the service takes 7 us more."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._revision = -1
        self._answers: OrderedDict[Target, Response] = OrderedDict()
        self.size = 0

    def find(self, target: Target, revision: int) -> Response | None:
        if revision != self._revision:
            return None
        found = self._answers.get(target)
        if found is not None:
            self._answers.move_to_end(target)
        return found

    def keep(self, target: Target, revision: int, response: Response) -> None:
        """`revision` is the one under which the whole answer was made."""
        if revision != self._revision:
            self._answers.clear()
            self._revision, self.size = revision, 0
        size = _size(target, response)
        if response.status_code != 200 or size > self._most_bytes or target in self._answers:
            return
        self._answers[target] = response
        self.size += size
        while self.size > self._most_bytes:
            self.size -= _size(*self._answers.popitem(last=False))


def _size(target: Target, response: Response) -> int:
    return len(response.body) + len(target[0]) + len(target[1]) + _OVERHEAD_BYTES
