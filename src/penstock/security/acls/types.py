"""The words of access control: operations, resources, patterns of names, and entries. Numbers and names are Kafka's."""

from __future__ import annotations

import enum
from typing import NamedTuple

CLUSTER_NAME = "kafka-cluster"
WILDCARD = "*"


class Operation(enum.IntEnum):
    """The numbers are those of ACLs on the wire and of the `authorized_operations` bit fields."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(enum.IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(enum.IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(enum.IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourcePattern(NamedTuple):
    """The names of an entry: one name (`*` is every name), or all names that begin alike."""

    type: ResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL


class AclEntry(NamedTuple):
    principal: str  # `User:alice`, or `User:*` for every client
    host: str  # an address, or `*`
    operation: Operation
    permission: Permission


def camel_case(word: enum.IntEnum) -> str:
    """How Kafka writes a word in its stores and tools: `TransactionalId`."""
    return "".join(part.capitalize() for part in word.name.split("_"))
