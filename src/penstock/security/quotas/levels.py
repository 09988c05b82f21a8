"""The quota that holds for a client: the first that is found of eight levels, as in Kafka's `ClientQuotaManager`.

    users/<user>/clients/<client id>         counted for this user and client id
    users/<user>/clients/<default>           the same
    users/<user>                             counted for this user
    users/<default>/clients/<client id>      counted for this user and client id
    users/<default>/clients/<default>        the same
    users/<default>                          counted for this user
    clients/<client id>                      counted for this client id
    clients/<default>                        the same

The defaults of client ids hold for a client without an id. Kafka lets such a client go free of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.security.quotas.entities import CLIENT_ID, USER, Quota

_DEFAULT = None
_ABSENT = ""  # no name is empty
_NAMED = "*"  # in the table below

_LEVELS: tuple[tuple[str | None, str | None], ...] = (
    (_NAMED, _NAMED),
    (_NAMED, _DEFAULT),
    (_NAMED, _ABSENT),
    (_DEFAULT, _NAMED),
    (_DEFAULT, _DEFAULT),
    (_DEFAULT, _ABSENT),
    (_ABSENT, _NAMED),
    (_ABSENT, _DEFAULT),
)

# Client ids may have 32,767 characters, and the broker remembers thousands of clients. Ids that share their first 256
# characters count together.
MAX_COUNTED_CLIENT_ID = 256

SensorKey = tuple[int, str, str]  # level, user, client id; empty where the level does not name it


class Bound(NamedTuple):
    """The quota that holds for a client."""

    per_second: float
    counted_for: SensorKey
    user: str | None  # of the entity that has the quota: None for a default, empty where the entity has none
    client_id: str | None


class QuotaLevels:
    """The quotas of one key."""

    __slots__ = ("_bounds", "_levels")

    def __init__(self, quotas: Iterable[Quota], key: str) -> None:
        self._bounds: dict[tuple[str | None, str | None], float] = {}
        for names, values in quotas:
            if key in values and (USER in names or CLIENT_ID in names):
                self._bounds[names.get(USER, _ABSENT), names.get(CLIENT_ID, _ABSENT)] = values[key]
        # Most brokers have quotas at one or two levels, and a request looks at no other.
        used = {tuple(map(_form, entity)) for entity in self._bounds}
        self._levels = [(number, *level) for number, level in enumerate(_LEVELS) if level in used]

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def entities(self) -> Iterable[tuple[str | None, str | None]]:
        """(user, client id) of the entities that have this quota."""
        return self._bounds

    def find(self, user: str, client_id: str | None) -> Bound | None:
        """None where no quota bounds the client."""
        name = (client_id or "")[:MAX_COUNTED_CLIENT_ID]
        for number, level_user, level_client in self._levels:
            if level_client == _NAMED and not client_id:
                continue
            entity = (
                user if level_user == _NAMED else level_user,
                client_id if level_client == _NAMED else level_client,
            )
            bound = self._bounds.get(entity)
            if bound is not None:
                counted_for = (number, "" if level_user == _ABSENT else user, "" if level_client == _ABSENT else name)
                return Bound(bound, counted_for, *entity)
        return None


def _form(name: str | None) -> str | None:
    return _NAMED if name else name
