"""Whose the files of a single broker's metadata are."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from penstock.core.config.broker_config import BrokerConfig
from penstock.core.metrics.cluster_counters import StoreMetrics
from penstock.server.stores import METADATA_FILE, open_store

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="b" password="p";'


def warnings_of_start(data: Path, protocol: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    config = BrokerConfig.parse(
        {
            "log.dirs": str(data),
            "listeners": f"{protocol}://127.0.0.1:0",
            "security.inter.broker.protocol": protocol,
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            f"listener.name.{protocol.lower()}.scram-sha-512.sasl.jaas.config": JAAS,
        }
    )

    async def start() -> None:
        await (await open_store(config, is_temporary=False, metrics=StoreMetrics())).close()

    caplog.clear()
    with caplog.at_level(logging.WARNING):
        asyncio.run(start())
    return [record.getMessage() for record in caplog.records]


def test_metadata_that_others_can_read_is_remarked_when_clients_log_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"
    assert warnings_of_start(data, "SASL_PLAINTEXT", caplog) == []
    assert data.stat().st_mode & 0o777 == 0o700
    (data / METADATA_FILE).chmod(0o644)
    assert warnings_of_start(data, "SASL_PLAINTEXT", caplog) == []  # nobody else comes as far as the file
    data.chmod(0o755)
    (warning,) = warnings_of_start(data, "SASL_PLAINTEXT", caplog)
    assert str(data / METADATA_FILE) in warning
    assert data.stat().st_mode & 0o777 == 0o755  # as somebody wanted it
    assert warnings_of_start(data, "PLAINTEXT", caplog) == []
