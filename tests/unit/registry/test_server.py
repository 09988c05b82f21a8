"""What hinders the start of a registry, before any broker is asked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.core.config.types import ConfigError
from penstock.registry.server import RegistryServer
from penstock.registry.settings import RegistrySettings


def start(settings: dict[str, str]) -> None:
    async def run() -> None:
        server = RegistryServer(RegistrySettings.parse({"kafkastore.bootstrap.servers": "127.0.0.1:1", **settings}))
        try:
            await server.start()
        finally:
            await server.stop()

    asyncio.run(run())


def test_start_is_refused_when_rights_are_given_and_nobody_could_log_in(tmp_path: Path) -> None:
    file = tmp_path / "rights.json"
    file.write_text("{}")
    with pytest.raises(ConfigError, match="asks for logins"):
        start({"penstock.rights.file": str(file)})


def test_start_is_refused_when_the_file_of_rights_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "rights.json"
    file.write_text('{"rule": []}')
    with pytest.raises(ConfigError, match="unknown field"):
        start({"penstock.rights.file": str(file), "penstock.http.users": "alice:secret"})


def test_ignored_setting_is_told_by_the_start_when_the_log_has_its_form(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"penstock.rights.file": str(tmp_path / "none"), "kafkastore.zk.session.timeout.ms": "1"}
    RegistrySettings.parse(settings)
    assert not caplog.records
    with pytest.raises(ConfigError):
        start(settings)
    assert [each.__dict__["key"] for each in caplog.records if "ignored" in each.message] == [
        "kafkastore.zk.session.timeout.ms"
    ]
