from __future__ import annotations

import asyncio

from penstock.streams.runtime.group_membership import BACKOFF, Rejoining


class Members:
    """Members of which each fails at once, unless it is one of the lucky ones. No time passes."""

    def __init__(self, *lucky: int) -> None:
        self.lucky = lucky
        self.told: list[str] = []
        self.pauses: list[float] = []
        self.came = 0
        self.rejoining = Rejoining(self.open, self.sleep, lambda: 0.5)
        self.settled = asyncio.Event()

    def open(self) -> Member:
        self.came += 1
        return Member(self, self.came)

    async def sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        await asyncio.sleep(0)

    def begin(self, number: int) -> None:
        self.told.append(f"{number} joins")
        if number in self.lucky:
            self.rejoining.settle()
            self.settled.set()
        else:
            self.rejoining.try_again()


class Member:
    def __init__(self, members: Members, number: int) -> None:
        self.members, self.number = members, number

    def start(self) -> None:
        self.members.begin(self.number)

    async def close(self) -> None:
        self.members.told.append(f"{self.number} leaves")


async def settled(members: Members) -> None:
    await asyncio.wait_for(members.settled.wait(), 10)
    members.settled.clear()


def test_another_member_joins_when_one_has_failed_and_each_leaves_before_the_next() -> None:
    async def run() -> None:
        members = Members(3)
        members.rejoining.start()
        await settled(members)
        assert members.told == ["1 joins", "1 leaves", "2 joins", "2 leaves", "3 joins"]
        await members.rejoining.close()
        assert members.told[-1] == "3 leaves"

    asyncio.run(run())


def test_pauses_grow_to_their_limit_and_are_short_again_when_a_member_was_in_the_group() -> None:
    async def run() -> None:
        members = Members(8, 10)
        members.rejoining.start()
        await settled(members)
        assert members.pauses == [1, 2, 4, 8, 16, BACKOFF.longest_s, BACKOFF.longest_s]
        members.rejoining.try_again()
        await settled(members)
        assert members.pauses[7:] == [1, 2]
        await members.rejoining.close()

    asyncio.run(run())


def test_nobody_follows_when_it_is_closed_in_a_pause() -> None:
    async def run() -> None:
        members = Members()
        members.rejoining.start()
        await members.rejoining.close()
        await asyncio.sleep(0)
        assert members.told == ["1 joins", "1 leaves"]

    asyncio.run(run())


def test_no_member_follows_when_the_last_one_fails_as_it_leaves() -> None:
    async def run() -> None:
        members = Members(1)
        members.rejoining.start()
        await members.rejoining.close()
        members.rejoining.try_again()
        await asyncio.sleep(0)
        assert members.told == ["1 joins", "1 leaves"]
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())
