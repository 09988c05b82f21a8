"""Keys of authorization: the authorizer, the superusers, and the tags that policies name."""

from __future__ import annotations

import re

from penstock.core.config.types import ConfigError, ConfigKey, ConfigKind, ConfigValue, Importance, OneOf, UpdateMode

TAGS_KEY = "penstock.tags"
PREFIX_TAGS_KEY = "penstock.tags.by.prefix"

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ZOOKEEPER_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"

# Tags are words of settings, of policies and of the audit trail.
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:\-]{0,99}")
TAG_WORDS = "1 to 100 letters, digits, dots, dashes, underscores and colons"
_PREFIX_TAGS = re.compile(r"[a-zA-Z0-9._\-]{1,249}=[^=]+")


def is_tag(text: str) -> bool:
    return _TAG.fullmatch(text) is not None


def split_prefix_tags(element: str) -> tuple[str, tuple[str, ...]] | None:
    """`secret-=pii+region:eu`: topics whose names begin with `secret-` bear both tags. None for a malformed entry."""
    if not _PREFIX_TAGS.fullmatch(element):
        return None
    prefix, _, words = element.partition("=")
    tags = tuple(words.split("+"))
    return (prefix, tags) if all(map(is_tag, tags)) else None


def split_principals(text: str) -> tuple[str, ...]:
    return tuple(part for each in text.split(";") if (part := each.strip()))


class Principals:
    """`User:admin;User:broker`"""

    def check(self, key: str, value: ConfigValue) -> None:
        for principal in split_principals(str(value or "")):
            kind, colon, name = principal.partition(":")
            if not (kind and colon and name):
                reason = f"expected a string in format principalType:principalName but got {principal}"
                raise ConfigError.of_value(key, value, reason)

    def __str__(self) -> str:
        return "type:name, separated by semicolons"


class Tags:
    def check(self, key: str, value: ConfigValue) -> None:
        assert isinstance(value, tuple)
        for tag in value:
            if not is_tag(tag):
                raise ConfigError.of_value(key, tag, f"A tag is {TAG_WORDS}")

    def __str__(self) -> str:
        return "words like pii or region:eu"


class PrefixTags:
    def check(self, key: str, value: ConfigValue) -> None:
        assert isinstance(value, tuple)
        for element in value:
            if split_prefix_tags(element) is None:
                raise ConfigError.of_value(key, element, f"Expected prefix=tag or prefix=tag+tag; a tag is {TAG_WORDS}")

    def __str__(self) -> str:
        return "prefix=tag+tag"


AUTHORIZATION_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "authorizer.class.name",
        ConfigKind.STRING,
        "",
        "Whether ACLs decide what clients may do. Empty: everybody may do everything. Both names of Kafka's own "
        "authorizers mean the same here.",
        OneOf(("", STANDARD_AUTHORIZER, ZOOKEEPER_AUTHORIZER)),
        importance=Importance.LOW,
    ),
    ConfigKey(
        "super.users",
        ConfigKind.STRING,
        "",
        "Who may do everything, whatever ACLs say. The user of the brokers themselves belongs here.",
        Principals(),
    ),
    ConfigKey(
        "allow.everyone.if.no.acl.found",
        ConfigKind.BOOLEAN,
        False,
        "Whether everybody may use a resource that no ACL is about.",
    ),
    ConfigKey(
        PREFIX_TAGS_KEY,
        ConfigKind.LIST,
        (),
        "Tags that topics bear because of the beginning of their names, also topics that are created later: "
        "`secret-=pii+region:eu`. Policies are about tags.",
        PrefixTags(),
        mode=UpdateMode.CLUSTER_WIDE,
    ),
)

TAGS = ConfigKey(
    TAGS_KEY,
    ConfigKind.LIST,
    (),
    "Tags of the topic, which policies are about. A change needs the right AlterConfigs on the cluster.",
    Tags(),
    mode=UpdateMode.CLUSTER_WIDE,
)
