"""The changes of a request, read from the request and its answer: one row for each API that changes something.

A row gets the request and the response and yields each requested change with its error code. The row does not know the
client, its address, or whether a trail keeps the event.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from penstock.core.config.resources import ConfigResourceType
from penstock.protocol.message import ZERO_UUID
from penstock.security.acls.types import WILDCARD, Operation, PatternType, Permission, ResourceType, camel_case
from penstock.security.audit.events import Detail
from penstock.security.audit.redaction import describe_settings, show_setting
from penstock.security.sasl.scram import SCRAM_HASHES_BY_CODE


class AuditedChange(NamedTuple):
    resource: str
    operation: str
    error_code: int = 0
    details: Mapping[str, Detail] = MappingProxyType({})


# Request and response belong to the API in whose row the function stands.
Describe = Callable[[Any, Any], Iterable[AuditedChange]]

_FINGERPRINT_DIGITS = 16
_INCREMENTAL = {0: "", 1: " (deleted)", 2: " (appended)", 3: " (subtracted)"}
_CONFIG_RESOURCES: dict[int, str] = {
    ConfigResourceType.TOPIC: "Topic",
    ConfigResourceType.BROKER: "Broker",
    ConfigResourceType.BROKER_LOGGER: "BrokerLogger",
    ConfigResourceType.CLIENT_METRICS: "ClientMetrics",
    ConfigResourceType.GROUP: "Group",
    ConfigResourceType.POLICY: "Policy",
}

# ------------------------------------------------------------------------------------------------- topics


def _create_topics(request: Any, response: Any) -> Iterator[AuditedChange]:
    if request.validate_only:
        return
    settings = {topic.name: topic for topic in request.topics}
    for result in response.topics:
        details: dict[str, Detail] = {}
        asked = settings.get(result.name)
        if asked is not None:
            details |= {"partitions": asked.num_partitions, "replication_factor": asked.replication_factor}
            details |= describe_settings((config.name, config.value) for config in asked.configs)
        yield AuditedChange(f"Topic:{result.name}", "Create", result.error_code, details)


def _delete_topics(_request: Any, response: Any) -> Iterator[AuditedChange]:
    for result in response.responses:
        by_id = f"id {result.topic_id.hex()}" if result.topic_id != ZERO_UUID else ""
        yield AuditedChange(f"Topic:{result.name if result.name is not None else by_id}", "Delete", result.error_code)


def _create_partitions(request: Any, response: Any) -> Iterator[AuditedChange]:
    if request.validate_only:
        return
    counts = {topic.name: topic.count for topic in request.topics}
    for result in response.results:
        details = {"partitions": counts.get(result.name)}
        yield AuditedChange(f"Topic:{result.name}", "Alter", result.error_code, details)


def _delete_records(_request: Any, response: Any) -> Iterator[AuditedChange]:
    for topic in response.topics:
        for partition in topic.partitions:
            details = {"partition": partition.partition_index, "low_watermark": partition.low_watermark}
            yield AuditedChange(f"Topic:{topic.name}", "DeleteRecords", partition.error_code, details)


def _reassign(request: Any, response: Any) -> Iterator[AuditedChange]:
    wanted = {
        (topic.name, partition.partition_index): partition.replicas
        for topic in request.topics
        for partition in topic.partitions
    }
    for topic in response.responses:
        for partition in topic.partitions:
            replicas = wanted.get((topic.name, partition.partition_index))
            asked = "cancelled" if replicas is None else ",".join(map(str, replicas))
            details: dict[str, Detail] = {"partition": partition.partition_index, "replicas": asked}
            code = response.error_code or partition.error_code
            yield AuditedChange(f"Topic:{topic.name}", "Reassign", code, details)


def _elect_leaders(request: Any, response: Any) -> Iterator[AuditedChange]:
    for topic in response.replica_election_results:
        for partition in topic.partition_result:
            details = {"partition": partition.partition_id, "unclean": request.election_type == 1}
            yield AuditedChange(f"Topic:{topic.topic}", "ElectLeader", partition.error_code, details)


def _move_between_directories(request: Any, response: Any) -> Iterator[AuditedChange]:
    paths = {
        (topic.name, partition): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for partition in topic.partitions
    }
    for topic in response.results:
        for partition in topic.partitions:
            path = paths.get((topic.topic_name, partition.partition_index))
            details: dict[str, Detail] = {"partition": partition.partition_index, "directory": path}
            yield AuditedChange(f"Topic:{topic.topic_name}", "AlterReplicaLogDirs", partition.error_code, details)


# ------------------------------------------------------------------------------------------------- settings


def _alter_configs(request: Any, response: Any) -> Iterator[AuditedChange]:
    if request.validate_only:
        return
    asked = {(each.resource_type, each.resource_name): each for each in request.resources}
    for result in response.responses:
        resource = asked.get((result.resource_type, result.resource_name))
        details: dict[str, Detail] = {}
        for config in () if resource is None else resource.configs:
            suffix = _INCREMENTAL.get(getattr(config, "config_operation", 0), "")
            # The trail exists to record the text of policies; a policy has no secrets.
            is_shown = result.resource_type == ConfigResourceType.POLICY
            details[f"{config.name}{suffix}"] = config.value if is_shown else show_setting(config.name, config.value)
        kind = _CONFIG_RESOURCES.get(result.resource_type, f"Resource type {result.resource_type}")
        yield AuditedChange(f"{kind}:{result.resource_name}", "AlterConfigs", result.error_code, details)


def _update_features(request: Any, response: Any) -> Iterator[AuditedChange]:
    if request.validate_only:
        return
    codes = {result.feature: result.error_code for result in response.results}
    for update in request.feature_updates:
        code = response.error_code or codes.get(update.feature, 0)
        details: dict[str, Detail] = {"level": update.max_version_level}
        yield AuditedChange(f"Feature:{update.feature}", "Alter", code, details)


def _unregister_broker(request: Any, response: Any) -> Iterator[AuditedChange]:
    yield AuditedChange(f"Broker:{request.broker_id}", "Unregister", response.error_code)


# ------------------------------------------------------------------------------------------------- ACLs, users, quotas


def describe_acl(acl: Any) -> str:
    permission, operation = _word(Permission, acl.permission_type), _word(Operation, acl.operation)
    return f"{permission} {acl.principal} {operation} from {acl.host}"


def _pattern(kind: int, name: str, pattern: int) -> str:
    return f"{_word(ResourceType, kind)}:{name}{WILDCARD if pattern == PatternType.PREFIXED else ''}"


def _word(words: type[enum.IntEnum], number: int) -> str:
    """An unknown number stays a number in the event."""
    try:
        return camel_case(words(number))
    except ValueError:
        return str(number)


def _create_acls(request: Any, response: Any) -> Iterator[AuditedChange]:
    for acl, result in zip(request.creations, response.results, strict=False):
        resource = _pattern(acl.resource_type, acl.resource_name, acl.resource_pattern_type)
        yield AuditedChange(resource, "CreateAcl", result.error_code, {"acl": describe_acl(acl)})


def _delete_acls(_request: Any, response: Any) -> Iterator[AuditedChange]:
    for result in response.filter_results:
        if result.error_code:
            yield AuditedChange("Cluster:kafka-cluster", "DeleteAcl", result.error_code)
        for acl in result.matching_acls:
            resource = _pattern(acl.resource_type, acl.resource_name, acl.pattern_type)
            yield AuditedChange(resource, "DeleteAcl", acl.error_code, {"acl": describe_acl(acl)})


def _alter_users(request: Any, response: Any) -> Iterator[AuditedChange]:
    """Never looks at the salts and salted passwords of the request."""
    asked: dict[str, list[str]] = {}
    for deletion in request.deletions:
        asked.setdefault(deletion.name, []).append(f"{_mechanism(deletion.mechanism)} deleted")
    for upsertion in request.upsertions:
        made = f"{_mechanism(upsertion.mechanism)} set with {upsertion.iterations} iterations"
        asked.setdefault(upsertion.name, []).append(made)
    for result in response.results:
        details: dict[str, Detail] = {"mechanisms": "; ".join(asked.get(result.user, ()))}
        yield AuditedChange(f"User:{result.user}", "AlterUserScramCredentials", result.error_code, details)


def _mechanism(number: int) -> str:
    known = SCRAM_HASHES_BY_CODE.get(number)
    return f"mechanism {number}" if known is None else known.mechanism


def _alter_quotas(request: Any, response: Any) -> Iterator[AuditedChange]:
    if request.validate_only:
        return
    asked = {_entity(entry): entry for entry in request.entries}
    for result in response.entries:
        entity = _entity(result)
        entry = asked.get(entity)
        details: dict[str, Detail] = {}
        for operation in () if entry is None else entry.ops:
            details[operation.key] = "removed" if operation.remove else f"{operation.value:g}"
        yield AuditedChange(f"Quota:{entity}", "AlterClientQuotas", result.error_code, details)


def _entity(entry: Any) -> str:
    parts = sorted((each.entity_type, each.entity_name or "<default>") for each in entry.entity)
    return ",".join(f"{kind}={name}" for kind, name in parts)


def _token(operation: str) -> Describe:
    def describe(request: Any, response: Any) -> Iterator[AuditedChange]:
        """Describes a token. The id of a token is no secret; its HMAC is. A request that renews or ends a token names
        the token by the HMAC alone, so a digest of the HMAC shows which events concern the same token: 64 of its 512
        bits, from which nothing follows.
        """
        token_id, hmac = getattr(response, "token_id", ""), getattr(request, "hmac", None)
        shown = hashlib.sha256(response.hmac if hmac is None else hmac).hexdigest()[:_FINGERPRINT_DIGITS]
        yield AuditedChange(f"DelegationToken:{token_id}", operation, response.error_code, {"fingerprint": shown})

    return describe


# ------------------------------------------------------------------------------------------------- groups


def _delete_groups(_request: Any, response: Any) -> Iterator[AuditedChange]:
    for result in response.results:
        yield AuditedChange(f"Group:{result.group_id}", "Delete", result.error_code)


def _delete_offsets(request: Any, response: Any) -> Iterator[AuditedChange]:
    if response.error_code:
        yield AuditedChange(f"Group:{request.group_id}", "DeleteOffsets", response.error_code)
    for topic in response.topics:
        for partition in topic.partitions:
            details: dict[str, Detail] = {"topic": topic.name, "partition": partition.partition_index}
            yield AuditedChange(f"Group:{request.group_id}", "DeleteOffsets", partition.error_code, details)


def _reset_offsets(request: Any, response: Any) -> Iterator[AuditedChange]:
    """A commit without a group member: a tool that resets offsets, or a consumer that assigns itself partitions."""
    if request.member_id or request.generation_id_or_member_epoch >= 0:
        return
    codes = {
        (topic.name, topic.topic_id, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }
    for topic in request.topics:
        for partition in topic.partitions:
            code = codes.get((topic.name, topic.topic_id, partition.partition_index), 0)
            details: dict[str, Detail] = {
                "topic": topic.name or f"id {topic.topic_id.hex()}",
                "partition": partition.partition_index,
                "offset": partition.committed_offset,
            }
            yield AuditedChange(f"Group:{request.group_id}", "ResetOffsets", code, details)


# By API key. The table also has APIs that are not served yet: the audit covers them from their first day.
CHANGES: Mapping[int, Describe] = {
    8: _reset_offsets,
    19: _create_topics,
    20: _delete_topics,
    21: _delete_records,
    30: _create_acls,
    31: _delete_acls,
    33: _alter_configs,
    34: _move_between_directories,
    37: _create_partitions,
    38: _token("CreateToken"),
    39: _token("RenewToken"),
    40: _token("ExpireToken"),
    42: _delete_groups,
    43: _elect_leaders,
    44: _alter_configs,
    45: _reassign,
    47: _delete_offsets,
    49: _alter_quotas,
    51: _alter_users,
    57: _update_features,
    64: _unregister_broker,
}
