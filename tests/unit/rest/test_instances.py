"""All consumer instances: bounded, and gone when nobody asks for them. Time is a number here."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from penstock.rest.consumers.instance import Instance
from penstock.rest.consumers.instances import Instances
from penstock.rest.consumers.settings import InstanceKey, InstanceLimits
from penstock.rest.errors import RestError


class FakeInstance:
    def __init__(self) -> None:
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True


class Table:
    def __init__(self, **limits: float) -> None:
        self.now = 0.0
        self.instances = Instances(InstanceLimits(**limits), lambda: self.now)  # type: ignore[arg-type]
        self.released: list[str] = []

    def add(self, name: str, client: str = "me") -> FakeInstance:
        key, instance = InstanceKey("", "g", name), FakeInstance()
        self.instances.check_room(key, client)
        self.instances.add(key, client, cast("Instance", instance), lambda: self.released.append(name))
        return instance

    def expire(self) -> None:
        self.instances._expire()

    async def use(self, name: str) -> None:
        async with self.instances.use(InstanceKey("", "g", name)):
            pass


def test_instance_ends_when_nobody_has_asked_for_it() -> None:
    async def run() -> None:
        table = Table(idle_s=300)
        first, second = table.add("first"), table.add("second")
        table.now = 200
        await table.use("first")
        table.now = 301
        table.expire()
        await asyncio.sleep(0)
        assert (first.is_closed, second.is_closed) == (False, True)
        assert table.released == ["second"]
        table.now = 501
        table.expire()
        await asyncio.sleep(0)
        assert first.is_closed
        assert len(table.instances) == 0
        await table.instances.close()

    asyncio.run(run())


def test_instance_stays_when_a_request_is_under_way() -> None:
    async def run() -> None:
        table = Table(idle_s=10)
        instance = table.add("busy")
        async with table.instances.use(InstanceKey("", "g", "busy")):
            table.now = 100
            table.expire()
            assert not instance.is_closed
        await table.instances.close()
        assert instance.is_closed

    asyncio.run(run())


def test_instance_is_refused_when_there_are_too_many() -> None:
    async def run() -> None:
        table = Table(most=3, most_per_client=2)
        table.add("a")
        table.add("b")
        with pytest.raises(RestError) as refused:
            table.add("c")
        assert refused.value.status == 429
        table.add("c", client="other")
        with pytest.raises(RestError):
            table.add("d", client="third")
        await table.instances.remove(InstanceKey("", "g", "a"))
        table.add("a")
        await table.instances.close()

    asyncio.run(run())


def test_codes_are_confluents_when_an_instance_exists_or_does_not() -> None:
    async def run() -> None:
        table = Table()
        table.add("a")
        with pytest.raises(RestError) as refused:
            table.add("a")
        assert refused.value.code == 40902
        with pytest.raises(RestError) as refused:
            await table.use("b")
        assert refused.value.code == 40403
        with pytest.raises(RestError):
            await table.instances.remove(InstanceKey("somebody else", "g", "a"))
        await table.instances.close()

    asyncio.run(run())


def test_no_instance_is_made_when_the_proxy_ends() -> None:
    async def run() -> None:
        table = Table()
        table.add("first")
        await table.instances.close()
        with pytest.raises(RestError) as raised:
            table.add("second")
        assert raised.value.code == 503

    asyncio.run(run())
