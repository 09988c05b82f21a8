"""Shows and changes configuration: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources.

The resources are topics, brokers, groups and policies, whose settings the metadata store keeps, and the loggers of this
process, whose levels end with the process. The controller changes the settings in the store: another broker changes its
own log levels and forwards all other changes. Client metrics are a resource in Kafka only: none exist here, and a
client can set none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock.broker.authorizer import CLUSTER_NAME, Authorizer, Operation, ResourceType
from penstock.broker.handlers.own_settings import OwnSettingsPort, refuse_unusable
from penstock.broker.log_levels import alter_levels, describe_levels
from penstock.broker.session import RequestContext
from penstock.broker.slices import Slices, Work, collect
from penstock.cluster.decisions.configs import check_own_broker_id, parse_changes
from penstock.cluster.decisions.decision import AlterConfigsResult, FullChange, IncrementalChange, RequestedChange
from penstock.cluster.decisions.security.policies import decide_alter_policies
from penstock.cluster.decisions.topic_names import check_topic_name
from penstock.cluster.image import settings_with_tags
from penstock.cluster.metadata import Metadata, answer_each
from penstock.core.config.describe import (
    ConfigEntry,
    describe_broker,
    describe_default_broker,
    describe_group,
    describe_topic,
)
from penstock.core.config.resources import ConfigResourceType, ConfigSource
from penstock.core.config.types import ConfigKind
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages import alter_configs as full_messages
from penstock.protocol.messages import incremental_alter_configs as incremental_messages
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from penstock.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from penstock.security.policies.policy import LISTS
from penstock.security.policies.tags import TAGS_KEY, parse_tags

if TYPE_CHECKING:  # a standalone broker does not load these
    from penstock.broker.forwarding.forwarder import Forwarding

Change = TypeVar("Change", FullChange, IncrementalChange)
AlterRequest = TypeVar(
    "AlterRequest", full_messages.AlterConfigsRequest, incremental_messages.IncrementalAlterConfigsRequest
)

_LISTABLE = (
    ConfigResourceType.TOPIC,
    ConfigResourceType.BROKER,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.CLIENT_METRICS,
    ConfigResourceType.GROUP,
)
# Penstock's own type is listed only for clients that name it: other clients do not know the number.
_LISTABLE_BY_NAME = (*_LISTABLE, ConfigResourceType.POLICY)
_TAGS_NEED_MORE = f"a change of {TAGS_KEY} needs AlterConfigs on the cluster"


class ConfigPort(OwnSettingsPort, Protocol):
    """The parts of the broker that the handlers of configs use."""

    authorizer: Authorizer
    forwarding: Forwarding | None
    metadata: Metadata
    node_id: int
    slices: Slices


def _may(broker: ConfigPort, context: RequestContext, operation: Operation, resource_type: int, name: str) -> ErrorCode:
    if resource_type == ConfigResourceType.TOPIC:
        allowed = broker.authorizer.is_allowed(context, operation, ResourceType.TOPIC, name)
        return ErrorCode.NONE if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if resource_type == ConfigResourceType.GROUP:
        allowed = broker.authorizer.is_allowed(context, operation, ResourceType.GROUP, name)
        return ErrorCode.NONE if allowed else ErrorCode.GROUP_AUTHORIZATION_FAILED
    allowed = broker.authorizer.is_allowed(context, operation, ResourceType.CLUSTER, CLUSTER_NAME)
    return ErrorCode.NONE if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED


# ---------------------------------------------------------------------------- DescribeConfigs


def describe_configs(
    broker: ConfigPort, context: RequestContext, request: DescribeConfigsRequest
) -> Work[DescribeConfigsResponse]:
    """Lists the settings of resources, or the named settings, and the source of each value.

    An error concerns its resource alone. Version 3 adds the type of a value and its documentation; version 4 is
    flexible.
    """
    results = yield from collect(_describe(broker, context, request, resource) for resource in request.resources)
    return DescribeConfigsResponse(results=results)


def _describe(
    broker: ConfigPort, context: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    answer = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
    )
    code = _may(broker, context, Operation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name)
    try:
        if code:
            raise ApiError(code)
        entries = _entries(broker, resource)
    except ApiError as error:
        answer.error_code, answer.error_message = error.code, error.message
        return answer
    answer.configs = [_entry(request, entry) for entry in entries]
    return answer


def _entries(broker: ConfigPort, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    name, keys = resource.resource_name, resource.configuration_keys
    if resource.resource_type == ConfigResourceType.TOPIC:
        return _topic_entries(broker, name, keys)
    if resource.resource_type == ConfigResourceType.BROKER:
        if not name:
            return describe_default_broker(broker.config, keys)
        if name != str(broker.node_id):
            text = f"Unexpected broker id, expected {broker.node_id} or empty string, but received {name}"
            raise ApiError(ErrorCode.INVALID_REQUEST, text)
        return describe_broker(broker.config, keys)
    if resource.resource_type == ConfigResourceType.GROUP:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return describe_group(broker.config, broker.metadata.image.group_configs.get(name, {}), keys)
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        return _logger_entries(broker, name, keys)
    if resource.resource_type == ConfigResourceType.POLICY:
        return _policy_entries(broker, name, keys)
    if resource.resource_type == ConfigResourceType.CLIENT_METRICS:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        return []
    raise ApiError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}")


def _topic_entries(broker: ConfigPort, name: str, keys: list[str] | None) -> list[ConfigEntry]:
    """A request for tags alone also gets the tags that a missing topic of this name would bear."""
    check_topic_name(name)
    image = broker.metadata.image
    settings = settings_with_tags(image, name)
    if name not in image.topics and not (settings and keys == [TAGS_KEY]):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return describe_topic(broker.config, settings, keys)


def _logger_entries(broker: ConfigPort, name: str, keys: list[str] | None) -> list[ConfigEntry]:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    if name != str(broker.node_id):
        text = f"Unexpected broker id, expected {broker.node_id} but received {name}"
        raise ApiError(ErrorCode.INVALID_REQUEST, text)
    return describe_levels(keys)


def _policy_entries(broker: ConfigPort, name: str, keys: list[str] | None) -> list[ConfigEntry]:
    return [
        ConfigEntry(
            key,
            value,
            ConfigSource.UNKNOWN,
            read_only=False,
            is_sensitive=False,
            synonyms=(),
            kind=ConfigKind.LIST if key in LISTS else ConfigKind.STRING,
            documentation=None,
        )
        for key, value in broker.metadata.image.security.policies.get(name, {}).items()
        if not keys or key in keys
    ]


def _entry(request: DescribeConfigsRequest, entry: ConfigEntry) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source) for each in synonyms],
        config_type=entry.kind,
        documentation=entry.documentation if request.include_documentation else None,
    )


# ---------------------------------------------------------------------------- altering


async def alter_configs(
    broker: ConfigPort, context: RequestContext, request: full_messages.AlterConfigsRequest
) -> full_messages.AlterConfigsResponse:
    """Replaces all settings of resources: a setting that the request does not name returns to its default.

    Log levels cannot be changed in this way. Version 2 is flexible.
    """
    changes = (
        FullChange(each.resource_type, each.resource_name, tuple((c.name, c.value) for c in each.configs))
        for each in request.resources
    )
    allowed, refused = await broker.slices.run(_partition(broker, context, changes))
    allowed, unusable = await refuse_unusable(broker, context, allowed)
    refused += unusable
    results: Sequence[AlterConfigsResult] | None = await _pass_on(broker, context, request, allowed)
    if results is None:
        policies, others = _split_policies(allowed)
        results = await answer_each(
            broker.metadata.alter_configs(others, validate_only=request.validate_only), _refuse_each(others)
        )
        results += await _alter_policies(broker, policies, validate_only=request.validate_only)
    return full_messages.AlterConfigsResponse(
        responses=[
            full_messages.AlterConfigsResourceResponse(
                error_code=code, error_message=message, resource_type=resource_type, resource_name=name
            )
            for resource_type, name, code, message in (*results, *refused)
        ]
    )


async def incremental_alter_configs(
    broker: ConfigPort, context: RequestContext, request: incremental_messages.IncrementalAlterConfigsRequest
) -> incremental_messages.IncrementalAlterConfigsResponse:
    """Sets, deletes, appends to or subtracts from single settings of resources.

    The broker changes a resource as a whole or not at all, and its error concerns the resource alone. Version 1 is
    flexible.
    """
    changes = (
        IncrementalChange(
            each.resource_type,
            each.resource_name,
            tuple(RequestedChange(c.name, c.config_operation, c.value) for c in each.configs),
        )
        for each in request.resources
    )
    allowed, refused = await broker.slices.run(_partition(broker, context, changes))
    allowed, unusable = await refuse_unusable(broker, context, allowed)
    refused += unusable
    loggers = [change for change in allowed if change.resource_type == ConfigResourceType.BROKER_LOGGER]
    stored = [change for change in allowed if change.resource_type != ConfigResourceType.BROKER_LOGGER]
    results: Sequence[AlterConfigsResult] | None = await _pass_on(broker, context, request, stored)
    if results is None:
        policies, others = _split_policies(stored)
        results = await answer_each(
            broker.metadata.incremental_alter_configs(others, validate_only=request.validate_only),
            _refuse_each(others),
        )
        results += await _alter_policies(broker, policies, validate_only=request.validate_only)
    levels = _alter_levels(broker, context, loggers, validate_only=request.validate_only)
    return incremental_messages.IncrementalAlterConfigsResponse(
        responses=[
            incremental_messages.AlterConfigsResourceResponse(
                error_code=code, error_message=message, resource_type=resource_type, resource_name=name
            )
            for resource_type, name, code, message in (*results, *levels, *refused)
        ]
    )


def _split_policies(changes: Sequence[Change]) -> tuple[list[Change], list[Change]]:
    """Separates the changes of policies from all other changes."""
    policies = [change for change in changes if change.resource_type == ConfigResourceType.POLICY]
    return policies, [change for change in changes if change.resource_type != ConfigResourceType.POLICY]


async def _alter_policies(
    broker: ConfigPort, changes: Sequence[FullChange | IncrementalChange], *, validate_only: bool
) -> tuple[AlterConfigsResult, ...]:
    if not changes:
        return ()
    return await answer_each(
        broker.metadata.security.apply(
            lambda security: decide_alter_policies(security, changes, validate_only=validate_only)
        ),
        _refuse_each(changes),
    )


def _refuse_each(
    changes: Iterable[FullChange | IncrementalChange],
) -> Callable[[ErrorCode, str | None], Iterable[AlterConfigsResult]]:
    resources = dict.fromkeys((change.resource_type, change.resource_name) for change in changes)
    return lambda code, message: (AlterConfigsResult(*resource, code, message) for resource in resources)


def _alter_levels(
    broker: ConfigPort, context: RequestContext, changes: list[IncrementalChange], *, validate_only: bool
) -> list[AlterConfigsResult]:
    counts = Counter(change.resource_name for change in changes)
    results = []
    for change in changes:
        code, message = ErrorCode.NONE, None
        try:
            if counts[change.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            parsed = parse_changes(change)
            check_own_broker_id(change.resource_name, broker.node_id)
            alter_levels(parsed, changed_by=str(context.session), validate_only=validate_only)
        except ApiError as error:
            code, message = error.code, error.message
        results.append(AlterConfigsResult(change.resource_type, change.resource_name, code, message))
    return results


def _partition(
    broker: ConfigPort, context: RequestContext, changes: Iterable[Change]
) -> Work[tuple[list[Change], list[AlterConfigsResult]]]:
    allowed, refused = [], []
    for change in changes:
        resource_type, name, *_ = change
        code, message = _may(broker, context, Operation.ALTER_CONFIGS, resource_type, name), None
        if not code and resource_type == ConfigResourceType.TOPIC and _changes_tags(broker, change):
            code = _may(broker, context, Operation.ALTER_CONFIGS, ConfigResourceType.BROKER, name)
            message = _TAGS_NEED_MORE if code else None
        if not code and name and resource_type == ConfigResourceType.BROKER and not context.session.is_forwarded:
            try:
                check_own_broker_id(name, broker.node_id)
            except ApiError as error:
                code, message = error.code, error.message
        if code:
            refused.append(AlterConfigsResult(resource_type, name, code, message))
        else:
            allowed.append(change)
        yield
    return allowed, refused


def _changes_tags(broker: ConfigPort, change: FullChange | IncrementalChange) -> bool:
    """Whether the change gives a topic other tags: the owners of a topic must not remove its tags, and with the tags
    the policies, from the topic.
    """
    if isinstance(change, IncrementalChange):
        return any(each.name == TAGS_KEY for each in change.changes)
    before = settings_with_tags(broker.metadata.image, change.resource_name).get(TAGS_KEY, "")
    after = next((value for key, value in change.settings if key == TAGS_KEY), None) or ""
    return set(parse_tags(before)) != set(parse_tags(after))


async def _pass_on(
    broker: ConfigPort, context: RequestContext, request: AlterRequest, changes: Sequence[Change]
) -> list[AlterConfigsResult] | None:
    """The controller's results for these changes of the request. None where this broker has to make the changes."""
    forwarding = broker.forwarding
    if forwarding is None or not forwarding.is_needed(context):
        return None
    if not changes:
        return []
    wanted = {(change.resource_type, change.resource_name) for change in changes}
    rest = type(request)(
        resources=[each for each in request.resources if (each.resource_type, each.resource_name) in wanted],
        validate_only=request.validate_only,
    )
    response: Any = await forwarding.forward(context, rest)
    if response is None:
        return None
    return [
        AlterConfigsResult(each.resource_type, each.resource_name, ErrorCode(each.error_code), each.error_message)
        for each in response.responses
    ]


# ---------------------------------------------------------------------------- ListConfigResources


def list_config_resources(
    broker: ConfigPort, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """Lists the names of resources that can have settings, of the requested types or of all types.

    Groups are listed only if they have settings of their own. Version 0 lists client metrics alone, of which there are
    none; version 1 adds the other types.
    """
    if not broker.authorizer.is_allowed(context, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if context.api_version == 0:
        return ListConfigResourcesResponse()
    wanted = set(request.resource_types) or set(_LISTABLE)
    if not wanted <= set(_LISTABLE_BY_NAME):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = broker.metadata.image
    nodes = [str(node_id) for node_id in image.brokers]
    names = {
        ConfigResourceType.TOPIC: list(image.topics),
        ConfigResourceType.BROKER: nodes,
        ConfigResourceType.BROKER_LOGGER: nodes,
        ConfigResourceType.CLIENT_METRICS: [],
        ConfigResourceType.GROUP: list(image.group_configs),
        ConfigResourceType.POLICY: list(image.security.policies),
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=resource_type)
            for resource_type in _LISTABLE_BY_NAME
            if resource_type in wanted
            for name in names[resource_type]
        ]
    )
