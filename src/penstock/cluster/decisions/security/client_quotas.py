"""The controller's decision about the quotas of clients: AlterClientQuotas.

An entity is changed as a whole or not at all, and its error concerns it alone. An entity that a request names twice is
refused: Kafka gives the same answer, but makes the first change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from penstock.cluster.security_image import SecurityImage, Settings, client_key, ip_key, user_key
from penstock.core.limits import MAX_STORE_PATH_LENGTH
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.security.quotas.alterations import EntityChange, alter_settings, check_entity, show_entity
from penstock.security.quotas.entities import CLIENT_ID, IP, USER, Names

_LONGEST_KEY = MAX_STORE_PATH_LENGTH - len("/config/")  # "/config/" is its prefix in the store


class AlterQuotaResult(NamedTuple):
    names: Names
    code: ErrorCode
    message: str | None


def decide_alter_client_quotas(
    security: SecurityImage, requested: Sequence[EntityChange], *, validate_only: bool = False
) -> tuple[tuple[AlterQuotaResult, ...], SecurityImage]:
    """One result per distinct entity, in the order of the request."""
    by_entity = {_identity(change.names): change for change in requested}
    counts = Counter(_identity(change.names) for change in requested)
    results: list[AlterQuotaResult] = []
    changed: dict[str, Settings] = {}
    for identity, change in by_entity.items():
        try:
            if counts[identity] > 1:
                text = f"Ignoring duplicate entity {show_entity(change.names)}"
                raise ApiError(ErrorCode.INVALID_REQUEST, text)
            key, settings = _alter(security.entity_configs, change)
        except ApiError as error:
            results.append(AlterQuotaResult(change.names, error.code, error.message))
            continue
        changed[key] = settings
        results.append(AlterQuotaResult(change.names, ErrorCode.NONE, None))
    if validate_only or not changed:
        return tuple(results), security
    # An entity without settings leaves nothing behind.
    after = {key: settings for key, settings in {**security.entity_configs, **changed}.items() if settings}
    return tuple(results), security._replace(entity_configs=MappingProxyType(after))


def _identity(names: Names) -> tuple[tuple[str, str | None], ...]:
    return tuple(sorted(names.items(), key=lambda item: item[0]))


def _alter(entity_configs: Mapping[str, Settings], change: EntityChange) -> tuple[str, Settings]:
    kinds = check_entity(change.names)
    key = _key(change.names)
    if len(key) > _LONGEST_KEY:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the entity's name is too long to have quotas")
    return key, MappingProxyType(alter_settings(entity_configs.get(key, {}), change, kinds))


def _key(names: Names) -> str:
    if IP in names:
        return ip_key(names[IP])
    if CLIENT_ID not in names:
        return user_key(names[USER])
    return client_key(names[CLIENT_ID], of_user=names.get(USER, ""))
