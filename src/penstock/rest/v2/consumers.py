"""Consumer instances over HTTP. Every request names the group and the instance; the instance does the rest.

A request for an instance of another proxy gets 307 with its address (`consumers.owners`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.admin.state.groups import CommittedOffset
from penstock.client.partition_fetch import EARLIEST, LATEST
from penstock.core.types import TopicPartition, new_uuid
from penstock.rest.answers import answer, encode_json, no_content
from penstock.rest.consumers.instance import Instance
from penstock.rest.consumers.owners import Peer
from penstock.rest.consumers.positions import Read
from penstock.rest.consumers.settings import InstanceKey, InstanceSettings, Reset
from penstock.rest.errors import ILLEGAL_STATE, INVALID_CONSUMER_CONFIG, INVALID_PAYLOAD, RestError
from penstock.rest.formats.formats import LARGE_BYTES, Format, Incoming
from penstock.rest.proxy import Proxy
from penstock.rest.v2.bodies import (
    ConsumedRecord,
    CreatedInstance,
    CreateInstance,
    OffsetBody,
    OffsetList,
    PartitionList,
    SubscribedTopics,
    SubscribeRequest,
    TopicPartitionBody,
)
from penstock.rest.v2.media import EMBEDDED, answer_type, check_body, check_records_accepted, type_of

_read_create = msgspec.json.Decoder(CreateInstance).decode
_read_subscribe = msgspec.json.Decoder(SubscribeRequest).decode
# Numbers may be texts, as in Confluent's proxy.
_read_partitions = msgspec.json.Decoder(PartitionList, strict=False).decode
_read_offsets = msgspec.json.Decoder(OffsetList, strict=False).decode

# A name becomes a part of addresses.
_NAME: Final = re.compile(r"[A-Za-z0-9_.~-]{1,249}")
_LONGEST_TIMEOUT_MS: Final = 60_000
_MOST_MIN_BYTES: Final = 10_000_000


# ---------------------------------------------------------------------------------------------------- instances


async def create_instance(proxy: Proxy, request: Request) -> Response:
    media_type = answer_type(request)
    check_body(request)
    group = request.path_params["group"]
    body = await proxy.inflight_bytes.read_body(request)
    given = _read_create(body) if body.strip() else CreateInstance()
    settings = _settings(proxy, given)
    name = given.name
    if name is None:
        name = proxy.owners.own_name(group, lambda: f"rest-consumer-{new_uuid()}")
    elif not _NAME.fullmatch(name) or name in (".", ".."):
        raise RestError(INVALID_CONSUMER_CONFIG, "name: letters, digits, dots, underscores and dashes are allowed")
    elsewhere = proxy.owners.elsewhere(group, name)
    if elsewhere is not None:
        return _redirect(elsewhere, request)
    key = InstanceKey(request.state.principal or "", group, name)
    client = key.principal or (request.client.host if request.client else "")
    proxy.instances.check_room(key, client)
    held = await proxy.clients.hold(request.state.caller)
    try:
        proxy.instances.check_room(key, client)
    except RestError:
        held.release()
        raise
    proxy.instances.add(key, client, Instance(group, settings, held.client), held.release)
    base = f"{proxy.base_url(request)}/consumers/{quote(group, safe='')}/instances/{quote(name, safe='')}"
    return answer(CreatedInstance(name, base), media_type=media_type)


def _settings(proxy: Proxy, given: CreateInstance) -> InstanceSettings:
    """Raises RestError 42204."""
    try:
        form = Format((given.format or Format.BINARY).lower())
    except ValueError:
        form = Format.STRING
    if form not in EMBEDDED:
        raise RestError(INVALID_CONSUMER_CONFIG, f"format: one of {', '.join(EMBEDDED)}")
    try:
        reset = Reset((given.auto_offset_reset or Reset.LATEST).lower())
    except ValueError:
        raise RestError(INVALID_CONSUMER_CONFIG, f"auto.offset.reset: one of {', '.join(Reset)}") from None
    commits_itself = given.auto_commit_enable
    if isinstance(commits_itself, str):
        if commits_itself.lower() not in ("true", "false"):
            raise RestError(INVALID_CONSUMER_CONFIG, "auto.commit.enable: true or false")
        commits_itself = commits_itself.lower() == "true"
    default_min = proxy.settings.number("fetch.min.bytes")
    default_timeout = proxy.settings.number("consumer.request.timeout.ms")
    return InstanceSettings(
        form,
        reset,
        bool(commits_itself),
        max(1, _number("fetch.min.bytes", given.fetch_min_bytes, default_min, -1, _MOST_MIN_BYTES)),
        _number("consumer.request.timeout.ms", given.request_timeout_ms, default_timeout, 0, _LONGEST_TIMEOUT_MS),
        proxy.settings.number("consumer.request.max.bytes"),
        proxy.settings.number("consumer.session.timeout.ms"),
    )


def _number(name: str, given: str | int | None, default: int, low: int, high: int) -> int:
    if given is None or given == "":
        return default
    text = str(given)
    is_number = text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 20
    if not is_number or not low <= int(text) <= high:
        raise RestError(INVALID_CONSUMER_CONFIG, f"{name}: a number from {low} to {high}")
    return int(text)


def _redirect(peer: Peer, request: Request) -> Response:
    """The raw path, so that nothing in it is decoded twice."""
    target = request.scope["raw_path"].decode("ascii")
    query = request.scope["query_string"].decode("latin-1")
    location = f"{peer.url}{target}{'?' if query else ''}{query}"
    body = {"error_code": 307, "message": "the consumer instance is at another proxy", "base_uri": location}
    response = answer(body, 307)
    response.headers["location"] = location
    return response


def _key(request: Request) -> InstanceKey:
    parameters = request.path_params
    return InstanceKey(request.state.principal or "", parameters["group"], parameters["instance"])


def elsewhere(proxy: Proxy, request: Request) -> Response | None:
    """The answer where the instance belongs to another proxy."""
    key = _key(request)
    peer = proxy.owners.elsewhere(key.group, key.instance)
    return None if peer is None else _redirect(peer, request)


async def delete_instance(proxy: Proxy, request: Request) -> Response:
    await proxy.instances.remove(_key(request))
    return no_content()


# ---------------------------------------------------------------------------------------------------- what is read


async def subscribe(proxy: Proxy, request: Request) -> Response:
    check_body(request)
    given = _read_subscribe(await proxy.inflight_bytes.read_body(request))
    if given.topics is not None and given.topic_pattern is not None:
        raise RestError(ILLEGAL_STATE, "topics and topic_pattern exclude each other")
    async with proxy.instances.use(_key(request)) as instance:
        if given.topic_pattern is not None:
            await instance.subscribe_pattern(given.topic_pattern)
        elif given.topics is not None:
            await instance.subscribe(given.topics)
        else:
            raise RestError(422, "topics or topic_pattern is needed")
    return no_content()


async def get_subscription(proxy: Proxy, request: Request) -> Response:
    media_type = answer_type(request)
    async with proxy.instances.use(_key(request)) as instance:
        return answer(SubscribedTopics(instance.topics), media_type=media_type)


async def unsubscribe(proxy: Proxy, request: Request) -> Response:
    async with proxy.instances.use(_key(request)) as instance:
        await instance.unsubscribe()
    return no_content()


async def assign(proxy: Proxy, request: Request) -> Response:
    check_body(request)
    given = _read_partitions(await proxy.inflight_bytes.read_body(request))
    async with proxy.instances.use(_key(request)) as instance:
        await instance.assign(_partitions(given))
    return no_content()


async def get_assignments(proxy: Proxy, request: Request) -> Response:
    media_type = answer_type(request)
    async with proxy.instances.use(_key(request)) as instance:
        found = [TopicPartitionBody(each.topic, each.partition) for each in instance.partitions]
    return answer(PartitionList(found), media_type=media_type)


# ---------------------------------------------------------------------------------------------------- records


async def get_records(proxy: Proxy, request: Request) -> Response:
    async with proxy.instances.use(_key(request)) as instance:
        form = instance.settings.form
        check_records_accepted(request, form)
        timeout_ms = _query(request, "timeout", instance.settings.request_timeout_ms, _LONGEST_TIMEOUT_MS)
        max_bytes = max(1, _query(request, "max_bytes", instance.settings.max_bytes, instance.settings.max_bytes))

        async def show(reads: Sequence[Read]) -> Sequence[bytes | RestError]:
            return await _shown(proxy, form, reads)

        records = await instance.records(timeout_ms, max_bytes, show)
    return Response(b"[" + b",".join(records) + b"]", media_type=type_of(form))


def _query(request: Request, name: str, default: int, most: int) -> int:
    """A value larger than `most` counts as `most`, a negative value as the default."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 20):
        raise RestError(400, f"{name} is no number")
    return default if int(text) < 0 else min(int(text), most)


async def _shown(proxy: Proxy, form: Format, reads: Sequence[Read]) -> list[bytes | RestError]:
    """Each record as JSON already: positions move behind the records that can be encoded alone. Many bytes are encoded
    in a thread, record by record, so that the loop has its turns.
    """
    keys = [Incoming(record.key, partition.topic, record.headers) for partition, record in reads]
    values = [Incoming(record.value, partition.topic, record.headers) for partition, record in reads]
    shown_keys = await proxy.payloads.read_all(form, keys, is_key=True)
    shown_values = await proxy.payloads.read_all(form, values, is_key=False)

    def encode() -> list[bytes | RestError]:
        return [_encoded(*each) for each in zip(reads, shown_keys, shown_values, strict=True)]

    return await asyncio.to_thread(encode) if sum(each.size for each in reads) > LARGE_BYTES else encode()


def _encoded(read: Read, key: Any, value: Any) -> bytes | RestError:
    failed = next((each for each in (key, value) if isinstance(each, RestError)), None)
    if failed is not None:
        return failed
    (topic, partition), record = read
    try:
        return encode_json(ConsumedRecord(topic, key, value, partition, record.offset))
    except (ValueError, RecursionError, OverflowError):  # a lone surrogate, a recursive schema
        return RestError(INVALID_PAYLOAD, "the record cannot be written as JSON: read the topic with the format binary")


# ---------------------------------------------------------------------------------------------------- offsets


async def commit_offsets(proxy: Proxy, request: Request) -> Response:
    """The offset of a read record: the group continues behind it. Without a body: behind all read records."""
    check_body(request)
    body = await proxy.inflight_bytes.read_body(request)
    given = None
    if body.strip():
        given = {
            TopicPartition(each.topic, each.partition): CommittedOffset(each.offset + 1, metadata=each.metadata or "")
            for each in _read_offsets(body).offsets
        }
    async with proxy.instances.use(_key(request)) as instance:
        await instance.commit(given)
    return Response(status_code=200)


async def get_committed(proxy: Proxy, request: Request) -> Response:
    """The body has the partitions, which a GET may have. Without a body: the assigned partitions."""
    media_type = answer_type(request)
    body = await proxy.inflight_bytes.read_body(request)
    wanted = _partitions(_read_partitions(body)) if body.strip() else None
    async with proxy.instances.use(_key(request)) as instance:
        committed = await instance.committed(wanted)
    offsets = [
        OffsetBody(each.topic, each.partition, found.offset, found.metadata)
        for each, found in sorted(committed.items())
    ]
    return answer(OffsetList(offsets), media_type=media_type)


async def seek(proxy: Proxy, request: Request) -> Response:
    check_body(request)
    given = _read_offsets(await proxy.inflight_bytes.read_body(request))
    async with proxy.instances.use(_key(request)) as instance:
        await instance.seek({TopicPartition(each.topic, each.partition): each.offset for each in given.offsets})
    return no_content()


async def seek_to_beginning(proxy: Proxy, request: Request) -> Response:
    return await _seek_to(proxy, request, EARLIEST)


async def seek_to_end(proxy: Proxy, request: Request) -> Response:
    return await _seek_to(proxy, request, LATEST)


async def _seek_to(proxy: Proxy, request: Request, place: int) -> Response:
    check_body(request)
    given = _read_partitions(await proxy.inflight_bytes.read_body(request))
    async with proxy.instances.use(_key(request)) as instance:
        await instance.seek_to(_partitions(given), place)
    return no_content()


def _partitions(given: PartitionList) -> list[TopicPartition]:
    return list(dict.fromkeys(TopicPartition(each.topic, each.partition) for each in given.partitions))
