"""The admin client: a picture of the cluster over the wire, and typed operations for asyncio and for threads.

with penstock.admin.connect("localhost:9092") as admin:
    print(admin.topics())
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.lazy.lazy_names import lazy_names

if TYPE_CHECKING:
    from penstock.admin.async_admin import AsyncAdmin
    from penstock.admin.blocking_admin import Admin, connect
    from penstock.admin.changes.acls import DeletedAcls
    from penstock.admin.changes.topics import NewTopic
    from penstock.admin.changes.users import Credential, NewPassword
    from penstock.admin.queries.offsets import FIRST, LAST
    from penstock.admin.state.cluster import ClusterState
    from penstock.admin.state.configs import ConfigPlace, ConfigSetting
    from penstock.admin.state.groups import CommittedOffset, GroupState, MemberState
    from penstock.admin.state.lags import PlaceLag, find_lags
    from penstock.admin.state.partitions import NO_LEADER, PartitionState, ReplicaKey, TopicState
    from penstock.admin.state.parts import Failure, Part, Partial
    from penstock.admin.state.quotas import QuotaEntity
    from penstock.admin.state.tokens import TokenState
    from penstock.admin.state.transactions import ListedTransaction, OpenTransaction, TransactionState
    from penstock.admin.state.users import UserState
    from penstock.core.types import TopicPartition
    from penstock.protocol.errors import ApiError, ErrorCode
    from penstock.security.acls.filters import AclFilter
    from penstock.security.acls.index import Acl
    from penstock.security.acls.types import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType
    from penstock.security.quotas.alterations import Component

__all__ = [
    "FIRST",
    "LAST",
    "NO_LEADER",
    "Acl",
    "AclEntry",
    "AclFilter",
    "Admin",
    "ApiError",
    "AsyncAdmin",
    "ClusterState",
    "CommittedOffset",
    "Component",
    "ConfigPlace",
    "ConfigSetting",
    "Credential",
    "DeletedAcls",
    "ErrorCode",
    "Failure",
    "GroupState",
    "ListedTransaction",
    "MemberState",
    "NewPassword",
    "NewTopic",
    "OpenTransaction",
    "Operation",
    "Part",
    "Partial",
    "PartitionState",
    "PatternType",
    "Permission",
    "PlaceLag",
    "QuotaEntity",
    "ReplicaKey",
    "ResourcePattern",
    "ResourceType",
    "TokenState",
    "TopicPartition",
    "TopicState",
    "TransactionState",
    "UserState",
    "connect",
    "find_lags",
]

_MODULES = {
    "Acl": "penstock.security.acls.index",
    "AclEntry": "penstock.security.acls.types",
    "AclFilter": "penstock.security.acls.filters",
    "Admin": "penstock.admin.blocking_admin",
    "ApiError": "penstock.protocol.errors",
    "AsyncAdmin": "penstock.admin.async_admin",
    "ClusterState": "penstock.admin.state.cluster",
    "CommittedOffset": "penstock.admin.state.groups",
    "Component": "penstock.security.quotas.alterations",
    "ConfigPlace": "penstock.admin.state.configs",
    "ConfigSetting": "penstock.admin.state.configs",
    "Credential": "penstock.admin.changes.users",
    "DeletedAcls": "penstock.admin.changes.acls",
    "ErrorCode": "penstock.protocol.errors",
    "FIRST": "penstock.admin.queries.offsets",
    "Failure": "penstock.admin.state.parts",
    "GroupState": "penstock.admin.state.groups",
    "LAST": "penstock.admin.queries.offsets",
    "ListedTransaction": "penstock.admin.state.transactions",
    "MemberState": "penstock.admin.state.groups",
    "NO_LEADER": "penstock.admin.state.partitions",
    "NewPassword": "penstock.admin.changes.users",
    "NewTopic": "penstock.admin.changes.topics",
    "OpenTransaction": "penstock.admin.state.transactions",
    "Operation": "penstock.security.acls.types",
    "Part": "penstock.admin.state.parts",
    "Partial": "penstock.admin.state.parts",
    "PartitionState": "penstock.admin.state.partitions",
    "PatternType": "penstock.security.acls.types",
    "Permission": "penstock.security.acls.types",
    "PlaceLag": "penstock.admin.state.lags",
    "QuotaEntity": "penstock.admin.state.quotas",
    "ReplicaKey": "penstock.admin.state.partitions",
    "ResourcePattern": "penstock.security.acls.types",
    "ResourceType": "penstock.security.acls.types",
    "TokenState": "penstock.admin.state.tokens",
    "TopicPartition": "penstock.core.types",
    "TopicState": "penstock.admin.state.partitions",
    "TransactionState": "penstock.admin.state.transactions",
    "UserState": "penstock.admin.state.users",
    "connect": "penstock.admin.blocking_admin",
    "find_lags": "penstock.admin.state.lags",
}

if not TYPE_CHECKING:  # whoever needs one module of the administration does not pay for all
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)
