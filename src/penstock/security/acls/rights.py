"""The rights that each API needs, for each form of its request: the one table of them.

The handlers check these rights; tests send every form of every served API with and without each of them, and a tool
writes the reference page of the APIs from here. `&` stands between rights that are all needed, in the order of the
checks; `|` stands between sets of which one is enough. A form that hides leaves out of the answer what the client has
no right to; other forms answer with an error.

`AnyTopic` is the right on at least one topic (KIP-679).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.protocol.errors import ErrorCode
from penstock.security.acls.types import Operation, ResourceType, camel_case

_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_TOKEN = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED

# The error for a client that lacks another right than the first.
REFUSALS = {
    ResourceType.TOPIC: _TOPIC,
    ResourceType.GROUP: _GROUP,
    ResourceType.CLUSTER: _CLUSTER,
    ResourceType.TRANSACTIONAL_ID: _TRANSACTION,
    ResourceType.DELEGATION_TOKEN: _TOKEN,
    ResourceType.USER: _TOKEN,
}

_OPERATIONS = {camel_case(operation): operation for operation in Operation}
_KINDS = {camel_case(kind): kind for kind in ResourceType}
_ANY_TOPIC = "AnyTopic"


class Right(NamedTuple):
    operation: Operation
    kind: ResourceType
    is_anywhere: bool = False  # on some resource of the kind, not on one that the request names

    def __str__(self) -> str:
        return f"{camel_case(self.operation)} {_ANY_TOPIC if self.is_anywhere else camel_case(self.kind)}"


class Form(NamedTuple):
    """One form of a request. An empty `needs` needs no right."""

    words: str
    needs: str
    refusal: ErrorCode | None = None  # for a client that lacks the first right
    hides: bool = False  # for a client that lacks the last right

    @property
    def alternatives(self) -> tuple[tuple[Right, ...], ...]:
        """Sets of rights, of which one is enough."""
        if not self.needs:
            return ()
        return tuple(tuple(map(_parse, some.split("&"))) for some in self.needs.split("|"))


def _parse(text: str) -> Right:
    operation, kind = text.split()
    if kind == _ANY_TOPIC:
        return Right(_OPERATIONS[operation], ResourceType.TOPIC, is_anywhere=True)
    return Right(_OPERATIONS[operation], _KINDS[kind])


_FOR_BROKERS = (Form("always", "ClusterAction Cluster", _CLUSTER),)

RIGHTS: Mapping[int, tuple[Form, ...]] = {
    0: (
        Form("by name", "Write Topic", _TOPIC),
        Form("by id", "Write Topic", _TOPIC),
        Form("several partitions", "Write Topic", _TOPIC),
        Form("transactional", "Write TransactionalId & Write Topic", _TRANSACTION),
    ),
    1: (
        Form("by name", "Read Topic", _TOPIC),
        Form("by id", "Read Topic", _TOPIC),
        Form("in a session", "Read Topic", _TOPIC),
        Form("as a follower", "ClusterAction Cluster", _TOPIC),
        Form("as a follower with its state", "ClusterAction Cluster", _TOPIC),
    ),
    2: (Form("by name", "Describe Topic", _TOPIC), Form("named twice", "Describe Topic", _TOPIC)),
    3: (
        Form("by name", "Describe Topic", _TOPIC),
        Form("by name, the short form", "Describe Topic", _TOPIC),
        Form("by id", "Describe Topic", _TOPIC),
        Form("all topics", "Describe Topic", hides=True),
        Form("creating", "Describe Topic & Create Topic | Describe Topic & Create Cluster", _TOPIC),
    ),
    8: (
        Form("by name", "Read Group & Read Topic", _GROUP),
        Form("by id", "Read Group & Read Topic", _GROUP),
    ),
    9: (
        Form("one group", "Describe Group & Describe Topic", _GROUP),
        Form("several groups", "Describe Group & Describe Topic", _GROUP),
        Form("all topics", "Describe Group & Describe Topic", _GROUP, hides=True),
    ),
    10: (
        Form("group", "Describe Group", _GROUP),
        Form("transaction", "Describe TransactionalId", _TRANSACTION),
        Form("several groups", "Describe Group", _GROUP),
    ),
    11: (Form("always", "Read Group", _GROUP),),
    12: (Form("always", "Read Group", _GROUP),),
    13: (Form("one member", "Read Group", _GROUP), Form("several members", "Read Group", _GROUP)),
    14: (Form("always", "Read Group", _GROUP),),
    15: (Form("always", "Describe Group", _GROUP),),
    16: (Form("all groups", "Describe Group | Describe Cluster", hides=True),),
    17: (Form("always", ""),),
    18: (Form("always", ""),),
    19: (
        Form("by name", "Create Topic | Create Cluster", _TOPIC),
        Form("validate only", "Create Topic | Create Cluster", _TOPIC),
        Form("with tags", "AlterConfigs Cluster & Create Topic | AlterConfigs Cluster & Create Cluster", _CLUSTER),
    ),
    20: (
        Form("by name", "Delete Topic | Delete Cluster", _TOPIC),
        Form("by id", "Delete Topic | Delete Cluster", _TOPIC),
    ),
    21: (Form("by name", "Delete Topic", _TOPIC),),
    22: (
        Form("transactional", "Write TransactionalId", _TRANSACTION),
        Form("idempotent", "IdempotentWrite Cluster | Write AnyTopic", _CLUSTER),
    ),
    23: (Form("by name", "Describe Topic | ClusterAction Cluster", _TOPIC),),
    24: (
        Form("of a client", "Write TransactionalId & Write Topic", _TRANSACTION),
        Form("of a broker", "ClusterAction Cluster", _CLUSTER),
    ),
    25: (Form("always", "Write TransactionalId & Read Group", _TRANSACTION),),
    26: (Form("always", "Write TransactionalId", _TRANSACTION),),
    27: (Form("always", "Alter Cluster | ClusterAction Cluster", _CLUSTER),),
    28: (Form("always", "Write TransactionalId & Read Group & Read Topic", _TRANSACTION),),
    29: (Form("always", "Describe Cluster", _CLUSTER),),
    30: (Form("always", "Alter Cluster", _CLUSTER),),
    31: (Form("always", "Alter Cluster", _CLUSTER),),
    32: (
        Form("topic", "DescribeConfigs Topic", _TOPIC),
        Form("group", "DescribeConfigs Group", _GROUP),
        Form("broker", "DescribeConfigs Cluster", _CLUSTER),
        Form("log levels", "DescribeConfigs Cluster", _CLUSTER),
        Form("policy", "DescribeConfigs Cluster", _CLUSTER),
    ),
    33: (
        Form("topic", "AlterConfigs Topic", _TOPIC),
        Form("group", "AlterConfigs Group", _GROUP),
        Form("broker", "AlterConfigs Cluster", _CLUSTER),
    ),
    34: (Form("always", "Alter Cluster", _CLUSTER),),
    35: (Form("all", "Describe Cluster", _CLUSTER), Form("by name", "Describe Cluster", _CLUSTER)),
    36: (Form("always", ""),),
    37: (Form("by name", "Alter Topic", _TOPIC),),
    38: (Form("for oneself", ""), Form("for another", "CreateTokens User", _TOKEN)),
    39: (Form("always", ""),),
    40: (Form("always", ""),),
    41: (Form("of others", "Describe DelegationToken | DescribeTokens User", hides=True),),
    42: (Form("several", "Delete Group", _GROUP),),
    43: (Form("all", "Alter Cluster", _CLUSTER), Form("by name", "Alter Cluster", _CLUSTER)),
    44: (
        Form("topic", "AlterConfigs Topic", _TOPIC),
        Form("group", "AlterConfigs Group", _GROUP),
        Form("broker", "AlterConfigs Cluster", _CLUSTER),
        Form("log levels", "AlterConfigs Cluster", _CLUSTER),
        Form("policy", "AlterConfigs Cluster", _CLUSTER),
        Form("tags of a topic", "AlterConfigs Topic & AlterConfigs Cluster", _TOPIC),
    ),
    45: (Form("always", "Alter Cluster", _CLUSTER),),
    46: (Form("all", "Describe Cluster", _CLUSTER), Form("by name", "Describe Cluster", _CLUSTER)),
    47: (Form("by name", "Delete Group & Read Topic", _GROUP),),
    48: (Form("always", "DescribeConfigs Cluster", _CLUSTER),),
    49: (Form("always", "AlterConfigs Cluster", _CLUSTER),),
    50: (Form("all", "Describe Cluster", _CLUSTER), Form("by name", "Describe Cluster", _CLUSTER)),
    51: (Form("always", "Alter Cluster", _CLUSTER),),
    55: (Form("always", "Describe Cluster", _CLUSTER),),
    56: _FOR_BROKERS,
    57: (Form("always", "Alter Cluster", _CLUSTER),),
    58: _FOR_BROKERS,
    60: (Form("always", ""),),
    61: (Form("by name", "Read Topic", _TOPIC),),
    63: _FOR_BROKERS,
    64: (Form("always", "Alter Cluster", _CLUSTER),),
    65: (Form("several", "Describe TransactionalId", _TRANSACTION),),
    66: (Form("all", "Describe TransactionalId", hides=True),),
    68: (Form("by name", "Read Group & Describe Topic", _GROUP),),
    69: (Form("several", "Describe Group", _GROUP),),
    73: _FOR_BROKERS,
    74: (Form("all", "DescribeConfigs Cluster", _CLUSTER),),
    75: (Form("by name", "Describe Topic", _TOPIC), Form("all topics", "Describe Topic", hides=True)),
}
