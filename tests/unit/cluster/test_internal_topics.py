from __future__ import annotations

import pytest

from penstock.cluster.decisions.internal_topics import internal_topic
from penstock.cluster.decisions.topics import decide_create_topics
from penstock.core.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.protocol.errors import ErrorCode
from tests.unit.cluster.harness import choices, cluster, config


@pytest.mark.parametrize("name", [CONSUMER_OFFSETS, TRANSACTION_STATE])
def test_internal_topics_wait_for_enough_brokers_when_there_is_a_cluster(name: str) -> None:
    wanted = internal_topic(name, config(), 1, is_cluster=True)
    assert wanted.replication_factor == 3
    decision = decide_create_topics(cluster(1, 2), config(), [wanted], choices())
    assert decision.results[0].code is ErrorCode.INVALID_REPLICATION_FACTOR
    decision = decide_create_topics(cluster(1, 2, 3), config(), [wanted], choices())
    assert decision.results[0].code is ErrorCode.NONE
