"""Settings of topics, brokers and groups, with where each value comes from."""

from __future__ import annotations

from typing import NamedTuple, Self

from penstock.core.config.resources import ConfigResourceType, ConfigSource


class ConfigPlace(NamedTuple):
    """What has settings. The broker with the empty name stands for all brokers."""

    kind: int  # a ConfigResourceType, or a number that is newer than this program
    name: str

    @classmethod
    def topic(cls, name: str) -> Self:
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int) -> Self:
        return cls(ConfigResourceType.BROKER, str(node_id))

    @classmethod
    def all_brokers(cls) -> Self:
        return cls(ConfigResourceType.BROKER, "")

    @classmethod
    def group(cls, group_id: str) -> Self:
        return cls(ConfigResourceType.GROUP, group_id)

    @classmethod
    def policy(cls, name: str) -> Self:
        """Of Penstock's own brokers alone."""
        return cls(ConfigResourceType.POLICY, name)

    @property
    def node_id(self) -> int | None:
        """The broker that alone knows the answer."""
        is_of_one = self.kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) and self.name.isdigit()
        return int(self.name) if is_of_one else None


class ConfigSynonym(NamedTuple):
    """Another place that the setting takes its value from, if the one before has none."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigSetting(NamedTuple):
    name: str
    value: str | None  # None where the value is a secret
    source: ConfigSource
    is_read_only: bool = False
    is_sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()  # where they were asked for

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG
