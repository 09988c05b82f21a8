"""Which proxy has a consumer instance: the same answer everywhere, from a list and nothing else."""

from __future__ import annotations

import itertools

import pytest

from penstock.core.config.types import ConfigError
from penstock.rest.consumers.owners import Owners, read_peers

URLS = {"a": "http://a:8082", "b": "http://b:8082", "c": "https://c.example:8082"}
PROXIES = {own: Owners(own, {name: url for name, url in URLS.items() if name != own}) for own in URLS}


def test_proxies_agree_when_they_are_asked_for_the_same_instance() -> None:
    owners = set()
    for number in range(100):
        answers = {own: proxy.elsewhere("group", f"i{number}") for own, proxy in PROXIES.items()}
        here = [own for own, peer in answers.items() if peer is None]
        assert len(here) == 1
        assert {peer.url for peer in answers.values() if peer is not None} == {URLS[here[0]]}
        owners.add(here[0])
    assert owners == set(URLS)


def test_made_up_names_belong_to_the_proxy_when_it_makes_them() -> None:
    numbers = itertools.count()
    for proxy in PROXIES.values():
        name = proxy.own_name("g", lambda: f"rest-consumer-{next(numbers)}")
        assert proxy.elsewhere("g", name) is None


def test_every_instance_is_here_when_there_are_no_peers() -> None:
    alone = read_peers("", ())
    assert not alone.has_peers
    assert alone.elsewhere("g", "\udc80") is None


def test_own_entry_is_left_out_when_all_proxies_have_one_list() -> None:
    owners = read_peers("a", [f"{name}={url}/" for name, url in URLS.items()])
    found = {peer.url for each in range(50) if (peer := owners.elsewhere("g", str(each)))}
    assert found == {URLS["b"], URLS["c"]}


@pytest.mark.parametrize("entry", ["b", "=http://b", "b=ftp://b:1", "b=http://", "b=b:8082", "b=http://b/?x=1"])
def test_peer_is_refused_when_it_is_no_address(entry: str) -> None:
    with pytest.raises(ConfigError):
        read_peers("a", [entry])


def test_list_of_peers_is_refused_when_the_proxy_has_no_name() -> None:
    with pytest.raises(ConfigError, match="id"):
        read_peers("", ["b=http://b:8082"])
