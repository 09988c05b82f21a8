"""Settings, with where each value comes from, and their changes. A broker answers for its own settings alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.admin.queries.slices import CONFIGS_AT_ONCE, cut
from penstock.admin.state.configs import ConfigPlace, ConfigSetting, ConfigSynonym
from penstock.admin.state.parts import Failure, Partial
from penstock.core.config.resources import ConfigChange, ConfigOperation, ConfigSource
from penstock.protocol.errors import ErrorCode, error_of
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

if TYPE_CHECKING:
    from penstock.admin.look import Look

Settings = dict[ConfigPlace, dict[str, ConfigSetting]]


async def read_configs(
    look: Look, places: Iterable[ConfigPlace], keys: Sequence[str] | None, nodes: Iterable[int]
) -> Partial[Settings]:
    """`keys` None means all: of 1,000 topics that is a megabyte. What any broker knows is asked of the first of `nodes`
    that answers.
    """
    common: list[ConfigPlace] = []
    by_node: dict[int, list[ConfigPlace]] = {}
    for place in dict.fromkeys(places):
        (common if place.node_id is None else by_node.setdefault(place.node_id, [])).append(place)
    requests = ((node_id, request) for node_id, own in by_node.items() for request in configs_requests(own, keys))
    subject = _subject(keys)
    of_each, of_any = await asyncio.gather(
        look.ask_each(subject, requests), look.ask_any_each(subject, configs_requests(common, keys), nodes)
    )
    failures = (*of_each.failures, *of_any.failures)
    found: Settings = {}
    for answer in (*(answer for _, _, answer in of_each.found), *of_any.found):
        some, refused = read_settings(answer)
        found |= some
        failures = (*failures, *refused)
    return Partial(found, failures)


def configs_requests(
    places: Sequence[ConfigPlace], keys: Sequence[str] | None = None, *, with_synonyms: bool = False
) -> Iterator[DescribeConfigsRequest]:
    for some in cut(places, CONFIGS_AT_ONCE):
        rows = [_resource(place, keys) for place in some]
        yield DescribeConfigsRequest(resources=rows, include_synonyms=with_synonyms)


def read_settings(answer: DescribeConfigsResponse) -> Partial[Settings]:
    found: Settings = {}
    refused = []
    for result in answer.results:
        place = ConfigPlace(result.resource_type, result.resource_name)
        if result.error_code != ErrorCode.NONE:
            error = error_of(result.error_code, result.error_message)
            refused.append(Failure.of(f"settings of {place.name}", error))
        else:
            found[place] = read_settings_of(result)
    return Partial(found, tuple(refused))


def read_settings_of(result: DescribeConfigsResult) -> dict[str, ConfigSetting]:
    """Of one place, whose error was looked at."""
    return {
        row.name: ConfigSetting(
            row.name,
            row.value,
            _source(row.config_source),
            row.read_only,
            row.is_sensitive,
            tuple(ConfigSynonym(each.name, each.value, _source(each.source)) for each in row.synonyms),
        )
        for row in result.configs
    }


def changes_of(values: Mapping[str, str | None]) -> list[ConfigChange]:
    """None takes a setting back to its default."""
    return [
        ConfigChange(name, ConfigOperation.DELETE if value is None else ConfigOperation.SET, value)
        for name, value in values.items()
    ]


def alteration(
    changes: Mapping[ConfigPlace, Iterable[ConfigChange]], *, only_check: bool = False
) -> IncrementalAlterConfigsRequest:
    """What is not named stays."""
    resources = [
        AlterConfigsResource(
            resource_type=place.kind,
            resource_name=place.name,
            configs=[
                AlterableConfig(name=each.name, config_operation=each.operation, value=each.value) for each in own
            ],
        )
        for place, own in changes.items()
    ]
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=only_check)


def _resource(place: ConfigPlace, keys: Sequence[str] | None) -> DescribeConfigsResource:
    return DescribeConfigsResource(
        resource_type=place.kind,
        resource_name=place.name,
        configuration_keys=None if keys is None else list(keys),
    )


def _subject(keys: Sequence[str] | None) -> str:
    return keys[0] if keys is not None and len(keys) == 1 else "settings"


def _source(number: int) -> ConfigSource:
    return ConfigSource(number) if number in ConfigSource._value2member_map_ else ConfigSource.UNKNOWN
