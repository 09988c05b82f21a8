"""The controller's decisions about policies on tags. Policies travel as settings of a resource of Penstock's own, one
for each policy; a policy without settings does not exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from penstock.cluster.decisions.configs import parse_changes
from penstock.cluster.decisions.decision import AlterConfigsResult, FullChange, IncrementalChange
from penstock.cluster.security_image import SecurityImage, with_value
from penstock.core.config.changes import apply_changes
from penstock.core.config.types import ConfigError, ConfigKey, ConfigKind
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.security.policies.policy import KEYS, LISTS, PolicyError, check_policy_name, parse_policy

# The number of policies. Each uncached decision about a topic with their tag reads each of them, and a new image reads
# all.
MAX_POLICIES = 1_000

_CONFIG_KEYS = {
    name: ConfigKey(name, ConfigKind.LIST if name in LISTS else ConfigKind.STRING, () if name in LISTS else "", "")
    for name in KEYS
}


def decide_alter_policies(
    security: SecurityImage, changes: Sequence[IncrementalChange | FullChange], *, validate_only: bool = False
) -> tuple[tuple[AlterConfigsResult, ...], SecurityImage]:
    counts = Counter(change.resource_name for change in changes)
    results: list[AlterConfigsResult] = []
    after = security
    for change in changes:
        code, message = ErrorCode.NONE, None
        try:
            if counts[change.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            after = _alter(after, change)
        except ApiError as error:
            code, message = error.code, error.message
        except (ConfigError, PolicyError) as error:
            code, message = ErrorCode.INVALID_CONFIG, str(error)
        results.append(AlterConfigsResult(change.resource_type, change.resource_name, code, message))
    return tuple(results), security if validate_only else after


def _alter(security: SecurityImage, change: IncrementalChange | FullChange) -> SecurityImage:
    name = change.resource_name
    check_policy_name(name)
    before = security.policies.get(name, {})
    settings = _settings(before, change)
    if settings:
        parse_policy(name, settings)
    if not before and len(security.policies) >= MAX_POLICIES and settings:
        raise PolicyError(f"there are {MAX_POLICIES} policies, and no more are allowed")
    policies = with_value(security.policies, name, MappingProxyType(dict(settings)))
    return security._replace(policies=policies)


def _settings(before: Mapping[str, str], change: IncrementalChange | FullChange) -> Mapping[str, str]:
    if isinstance(change, IncrementalChange):
        return apply_changes(before, parse_changes(change), _CONFIG_KEYS)
    if any(value is None for _, value in change.settings):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Null value not supported")
    return {key: value for key, value in change.settings if value is not None}
