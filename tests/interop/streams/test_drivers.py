"""One driver at a time on Apache Kafka, too, with its waits and its sessions as they are by default."""

from __future__ import annotations

import os
import time

import pytest

from penstock.pipelines.pipeline import Settings
from penstock.streams.runtime.driver_lease import take_lease
from penstock.streams.topology.errors import StreamsError
from penstock.testing.processes import ServerProcess


def test_second_driver_is_refused_soon_and_the_next_one_begins_when_the_first_has_left(broker: ServerProcess) -> None:
    settings = Settings(bootstrap_servers=broker.bootstrap_servers)
    first = take_lease("one-driver", settings, "/first")
    assert first is not None
    began = time.monotonic()
    with pytest.raises(StreamsError, match=f"another driver runs one-driver: process {os.getpid()} on "):
        take_lease("one-driver", settings, "/second")
    assert time.monotonic() - began < 10  # three seconds of it are Kafka's, for a group that has just begun
    first.check()
    first.close()
    third = take_lease("one-driver", settings, "/third")
    assert third is not None
    third.check()
    third.close()
