from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from penstock.broker.peers.peers import Peers, PeerUnavailableError
from penstock.core.time.backoff import Backoff
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.fetch import FetchRequest
from penstock.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tests.own_time import pass_time, run_in_own_time
from tests.unit.broker.peers.links import Network, image_of, registration
from tests.waiting import until

ASKED = ListGroupsRequest()
NEVER = Backoff(first_s=1_000, longest_s=1_000)


def run(scene: Callable[[Network, Peers], Awaitable[None]], back_off: Backoff = NEVER) -> None:
    async def whole() -> None:
        network = Network()
        peers = Peers(1, network.find, network.connect, Random(1).random, back_off)
        try:
            async with asyncio.timeout(20):
                await scene(network, peers)
        finally:
            await peers.close()

    run_in_own_time(whole())


class TestAsking:
    def test_one_connection_serves_all_requests_when_many_ask_at_once(self) -> None:
        async def scene(network: Network, peers: Peers) -> None:
            broker = network.add(2, answer=lambda _: ListGroupsResponse(groups=[ListedGroup(group_id="g")]))
            answers = await asyncio.gather(*(peers.ask(2, ASKED, timeout_s=5) for _ in range(10)))
            assert [answer.groups[0].group_id for answer in answers] == ["g"] * 10
            assert broker.attempts == 1
            (link,) = broker.links
            assert link.client_id == "broker-1-shared"
            assert sum(isinstance(message, ApiVersionsRequest) for message, _ in link.sent) == 1
            assert {version for message, version in link.sent if message is ASKED} == {ListGroupsRequest.MAX_VERSION}

        run(scene)

    def test_channels_have_their_own_connections_when_named(self) -> None:
        async def scene(network: Network, peers: Peers) -> None:
            broker = network.add(2)
            await peers.ask(2, ASKED, timeout_s=5)
            await peers.ask(2, ASKED, timeout_s=5, channel="forwarding")
            assert [link.client_id for link in broker.links] == ["broker-1-shared", "broker-1-forwarding"]

        run(scene)

    def test_request_fails_when_the_broker_is_not_registered(self) -> None:
        async def scene(_: Network, peers: Peers) -> None:
            with pytest.raises(PeerUnavailableError, match="not registered"):
                await peers.ask(2, ASKED, timeout_s=5)

        run(scene)

    def test_request_fails_when_the_broker_does_not_serve_it(self) -> None:
        async def scene(network: Network, peers: Peers) -> None:
            network.add(2)
            with pytest.raises(PeerUnavailableError, match="does not serve Fetch"):
                await peers.ask(2, FetchRequest(), timeout_s=5)

        run(scene)

    def test_request_fails_and_others_keep_the_connection_when_no_answer_comes_in_time(self) -> None:
        async def scene(network: Network, peers: Peers) -> None:
            broker = network.add(2)
            broker.is_silent = True
            with pytest.raises(PeerUnavailableError, match="did not answer"):
                await peers.ask(2, ASKED, timeout_s=0.01)
            broker.is_silent = False
            await peers.ask(2, ASKED, timeout_s=5)
            assert broker.attempts == 1

        run(scene)

    def test_connection_of_its_own_ends_when_no_answer_comes_in_time(self) -> None:
        async def scene(network: Network, peers: Peers) -> None:
            broker = network.add(2)
            broker.is_silent = True
            peer = await peers.open(2, "fetcher")
            with pytest.raises(PeerUnavailableError):
                await peer.request(ASKED, 0.01)
            assert not peer.is_open

        run(scene)

    def test_attempt_goes_on_when_the_one_who_began_it_gives_up(self) -> None:
        async def scene(network: Network, peers: Peers) -> None:
            broker = network.add(2)
            broker.accepting = asyncio.Event()
            with pytest.raises(PeerUnavailableError, match="in time"):
                await peers.ask(2, ASKED, timeout_s=0.01)
            waiting = asyncio.ensure_future(peers.ask(2, ASKED, timeout_s=5))
            await asyncio.sleep(0)
            broker.accepting.set()
            await waiting
            assert broker.attempts == 1

        run(scene)


class TestBackOff:
    def test_nobody_connects_when_an_attempt_failed_a_moment_ago(self) -> None:
        async def scene(network: Network, peers: Peers) -> None:
            broker = network.add(2)
            broker.is_away = True
            asked = [peers.ask(2, ASKED, timeout_s=5, channel=f"channel {index}") for index in range(5)]
            outcomes = await asyncio.gather(*asked, return_exceptions=True)
            assert all(isinstance(outcome, PeerUnavailableError) for outcome in outcomes)
            with pytest.raises(PeerUnavailableError, match="a moment ago"):
                await peers.open(2, "fetcher")
            assert broker.attempts == 1

        run(scene)

    def test_broker_is_tried_again_when_the_pause_has_passed(self) -> None:
        async def scene(network: Network, peers: Peers) -> None:
            broker = network.add(2)
            broker.is_away = True
            with pytest.raises(PeerUnavailableError):
                await peers.ask(2, ASKED, timeout_s=5)
            broker.is_away = False
            while broker.attempts == 1:
                await pass_time(0.001)
                try:
                    await peers.ask(2, ASKED, timeout_s=5)
                except PeerUnavailableError:
                    continue
            assert broker.attempts == 2

        run(scene, Backoff(first_s=0.02, longest_s=0.02))

    def test_broker_is_tried_at_once_when_it_has_registered_anew(self) -> None:
        async def scene(network: Network, peers: Peers) -> None:
            network.add(2).is_away = True
            with pytest.raises(PeerUnavailableError):
                await peers.ask(2, ASKED, timeout_s=5)
            before = network.image
            broker = network.add(2, epoch=2)
            peers.follow(before, network.image)
            await peers.ask(2, ASKED, timeout_s=5)
            assert broker.attempts == 1

        run(scene)


class TestFollowing:
    @pytest.mark.parametrize(("epoch", "port"), [(2, None), (1, 7777)])
    def test_connections_end_when_the_broker_has_another_epoch_or_address(self, epoch: int, port: int | None) -> None:
        async def scene(network: Network, peers: Peers) -> None:
            former = network.add(2)
            other = network.add(3)
            own = await peers.open(2, "fetcher")
            await peers.ask(2, ASKED, timeout_s=5)
            await peers.ask(3, ASKED, timeout_s=5)
            before = network.image
            broker = network.add(2, epoch=epoch, port=port)
            peers.follow(before, network.image)
            await asyncio.sleep(0)
            assert [link.is_open for link in former.links] == [False, False]
            assert not own.is_open
            assert [link.is_open for link in other.links] == [True]
            await peers.ask(2, ASKED, timeout_s=5)
            assert len(broker.links) == 1

        run(scene)

    def test_outstanding_requests_fail_when_the_broker_is_gone(self) -> None:
        async def scene(network: Network, peers: Peers) -> None:
            broker = network.add(2)
            broker.is_silent = True
            waiting = asyncio.ensure_future(peers.ask(2, ASKED, timeout_s=1_000))
            await until(lambda: any(link.sent[1:] for link in broker.links))
            peers.follow(network.image, image_of(registration(1)))
            with pytest.raises(PeerUnavailableError):
                await waiting

        run(scene)

    def test_those_who_wait_for_a_connection_fail_when_the_broker_is_gone(self) -> None:
        async def scene(network: Network, peers: Peers) -> None:
            network.add(2).accepting = asyncio.Event()
            waiting = asyncio.ensure_future(peers.ask(2, ASKED, timeout_s=1_000))
            await asyncio.sleep(0)
            peers.follow(network.image, image_of(registration(1)))
            with pytest.raises(PeerUnavailableError, match="gone"):
                await waiting

        run(scene)


class TestLosing:
    def test_listeners_hear_of_it_when_a_connection_is_reset(self) -> None:
        async def scene(network: Network, peers: Peers) -> None:
            lost: list[int] = []
            peers.on_lost(lost.append)
            broker = network.add(2)
            await peers.open(2, "watch")
            assert lost == []
            broker.kill()
            assert lost == [2]

        run(scene)

    def test_listeners_hear_of_it_when_a_connection_is_refused_after_another_was_open(self) -> None:
        async def scene(network: Network, peers: Peers) -> None:
            lost: list[int] = []
            peers.on_lost(lost.append)
            broker = network.add(2)
            await (await peers.open(2, "former")).close()
            broker.is_away = True
            with pytest.raises(PeerUnavailableError):
                await peers.ask(2, ASKED, timeout_s=5)
            assert lost == [2]

        run(scene)

    def test_nothing_is_told_when_a_broker_refuses_before_it_ever_listened(self) -> None:
        async def scene(network: Network, peers: Peers) -> None:
            lost: list[int] = []
            peers.on_lost(lost.append)
            network.add(2).is_away = True
            with pytest.raises(PeerUnavailableError):
                await peers.ask(2, ASKED, timeout_s=5)
            assert lost == []

        run(scene)

    def test_nothing_is_told_when_this_side_closes(self) -> None:
        async def scene(network: Network, peers: Peers) -> None:
            lost: list[int] = []
            peers.on_lost(lost.append)
            broker = network.add(2)
            await peers.open(2, "watch")
            await peers.ask(2, ASKED, timeout_s=5)
            await peers.close()
            assert lost == []
            assert not any(link.is_open for link in broker.links)
            with pytest.raises(PeerUnavailableError, match="closing"):
                await peers.ask(2, ASKED, timeout_s=5)

        run(scene)
