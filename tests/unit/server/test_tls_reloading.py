"""What the log says of certificates that end, and of those that are replaced."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.core.config.broker_config import BrokerConfig
from penstock.core.metrics.counters import SocketMetrics
from penstock.server.net.tls_reloading import ServedTls, TlsReloading, load_served
from penstock.testing.clock import ManualClock
from tests.certificates import broker_settings, new_directory

DAY_MS = 86_400_000


def test_log_warns_once_at_each_stage_when_a_certificate_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = new_directory(tmp_path / "certificates")
    config = BrokerConfig.parse({"listeners": "SSL://localhost:0", **broker_settings(directory)})
    served = load_served(config, config.endpoints[0], is_inter_broker=False)
    clock = ManualClock()
    used: list[ServedTls] = []
    reloading = TlsReloading([served], used.append, lambda: config, SocketMetrics(), clock)
    until_ms = int(served.tls.certificate.valid_until.timestamp() * 1000)

    def lines_at(days: float) -> list[str]:
        caplog.clear()
        clock.set_now_ms(until_ms - int(days * DAY_MS))
        asyncio.run(reloading.look())
        return [record.message for record in caplog.records if record.levelname == "WARNING"]

    soon = ["a certificate ends soon: renew it"]
    assert [lines_at(days) for days in (40, 29, 28, 6, 5)] == [[], soon, [], soon, []]
    assert lines_at(-1) == ["a certificate has ended, and clients refuse it"]
    directory.renew(["broker"])
    asyncio.run(reloading.look())
    assert used == [served]


def test_log_tells_a_new_certificate_from_a_new_revocation_list(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = new_directory(tmp_path / "certificates", alice=None)
    settings = {**broker_settings(directory), "penstock.ssl.crl.location": str(directory.revocations)}
    config = BrokerConfig.parse({"listeners": "SSL://localhost:0", **settings})
    served = load_served(config, config.endpoints[0], is_inter_broker=False)
    reloading = TlsReloading([served], lambda _: None, lambda: config, SocketMetrics(), ManualClock())
    caplog.set_level("INFO")
    directory.revoke("alice")
    asyncio.run(reloading.look())
    directory.renew(["broker"])
    asyncio.run(reloading.look())
    assert [record.message for record in caplog.records if record.message.startswith("serving")] == [
        "serving the same certificate; what is trusted or revoked changed",
        "serving a new certificate",
    ]
