"""The query of a URL. Unknown names are ignored, and the first value of a name counts.

As in Confluent's registry (JAX-RS, 3.2), a flag is set by `true` in any case and by nothing else, and an invalid number
means a page that does not exist.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

from penstock.registry.errors import RegistryError
from penstock.registry.model import Deleted, Page, Rendering

_INTEGER = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_LEAST, _MOST = -(1 << 31), (1 << 31) - 1
# The operation with the most parameters has eight; keys and values of metadata come in pairs.
_MOST_FIELDS = 200


def no_such_page() -> RegistryError:
    return RegistryError(404, "HTTP 404 Not Found")


def parse_integer(text: str) -> int:
    """A number of 32 bits; raises 404 for anything else."""
    number = int(text) if _INTEGER.fullmatch(text) else _MOST + 1
    if not _LEAST <= number <= _MOST:
        raise no_such_page()
    return number


class QueryString:
    __slots__ = ("_pairs",)

    def __init__(self, query_string: bytes) -> None:
        try:
            self._pairs = (
                parse_qsl(query_string.decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
                if query_string
                else []
            )
        except ValueError:
            raise RegistryError(400, "The query has too many parameters") from None

    def texts(self, name: str) -> list[str]:
        return [value for each, value in self._pairs if each == name]

    def text(self, name: str) -> str:
        return next((value for each, value in self._pairs if each == name), "")

    def flag(self, name: str) -> bool:
        return self.text(name).lower() == "true"

    def integer(self, name: str, default: int) -> int:
        text = self.text(name)
        return parse_integer(text) if text else default

    # -------------------------------------------------------------------------------------------- shared parameters

    def page(self) -> Page:
        return Page(max(0, self.integer("offset", 0)), self.integer("limit", -1))

    def rendering(self) -> Rendering:
        return Rendering(self.text("format"), self.text("referenceFormat"), tuple(self.texts("findTags")))

    def deleted(self) -> Deleted:
        if self.flag("deletedOnly"):
            return Deleted.ONLY
        return Deleted.INCLUDED if self.flag("deleted") else Deleted.LEFT_OUT
