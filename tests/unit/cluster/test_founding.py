"""When a broker makes a new cluster, and when it must not."""

from __future__ import annotations

import pytest

from penstock.cluster.metadata import Metadata
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import StoreError
from penstock.cluster.store.memory import MemoryStore
from tests.unit.cluster.harness import choices, config, run


def test_no_cluster_is_founded_when_the_data_belong_to_one() -> None:
    store = MemoryStore()
    with pytest.raises(StoreError, match=r"belong to cluster former: check zookeeper\.connect"):
        run(Metadata.load(store, config(), choices=choices(), owner="former"))
    assert run(store.read_many([znodes.CLUSTER_ID, znodes.LOG, znodes.BROKERS])) == [None, None, None]


def test_a_cluster_is_founded_when_its_id_is_named() -> None:
    broker = config(penstock_cluster_id="former")
    assert run(Metadata.load(MemoryStore(), broker, choices=choices(), owner="former")).image.cluster_id == "former"


def test_a_cluster_that_is_there_is_joined_when_the_data_belong_to_it() -> None:
    store = MemoryStore()
    founded = run(Metadata.load(store, config(), choices=choices())).image
    assert run(Metadata.load(store, config(), choices=choices(), owner=founded.cluster_id)).image == founded
