"""The file with a password is lost: a secure start makes another password, and the lost one opens nothing any more."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.cluster.levels import FIRST_LEVEL, SECURITY_LEVEL, SNAPSHOT_LEVEL, LevelRange
from penstock.cluster.metadata import Metadata
from penstock.cluster.security_image import SecurityImage, user_key
from penstock.cluster.store.sqlite import SqliteStore
from penstock.core.config.broker_config import BrokerConfig
from penstock.security.sasl.scram import SHA_256, SHA_512, ScramHash, decode_credential, make_credential
from penstock.security_setup.setup import ADMIN, BROKER, SecureSetup, SecureSetupError
from penstock.security_setup.single import secure_single
from penstock.server.stores import ADOPTED_FILE, METADATA_FILE


def load_security(properties: Mapping[str, str], level: int) -> SecurityImage:
    """As a broker loads it that knows no higher level. Where there is no store yet, that broker makes it."""

    async def load() -> SecurityImage:
        config = BrokerConfig.parse(properties)
        store = await SqliteStore.open(Path(config.log_directories[0]) / METADATA_FILE)
        metadata = await Metadata.load(store, config, levels=LevelRange(FIRST_LEVEL, level))
        await store.close()
        return metadata.image.security

    return asyncio.run(load())


def opens(security: SecurityImage, user: str, hashing: ScramHash, password: str) -> bool:
    stored = decode_credential(security.entity_configs[user_key(user)][hashing.mechanism])
    salted = hashing.salted_password(password, stored.salt, stored.iterations)
    return make_credential(hashing, salted, stored.salt, stored.iterations) == stored


def password_of_admin(setup: SecureSetup) -> str:
    return str(setup.client_config("")["sasl.password"])


@pytest.mark.parametrize("level", [SECURITY_LEVEL, SNAPSHOT_LEVEL])
def test_lost_password_opens_nothing_when_a_secure_start_has_made_another(tmp_path: Path, level: int) -> None:
    settings = {"log.dirs": str(tmp_path / "data")}
    setup, properties = secure_single(settings)
    before = load_security(properties, level)
    lost = password_of_admin(setup)
    assert opens(before, ADMIN, SHA_512, lost)
    setup.client_file.unlink()
    again, properties = secure_single(settings)
    after = load_security(properties, level)
    for hashing in (SHA_256, SHA_512):
        assert not opens(after, ADMIN, hashing, lost)
        assert opens(after, ADMIN, hashing, password_of_admin(again))
    assert after.entity_configs[user_key(BROKER)] == before.entity_configs[user_key(BROKER)]


def test_secure_start_is_refused_when_a_file_is_lost_and_the_data_went_into_a_cluster(tmp_path: Path) -> None:
    setup, _ = secure_single({"log.dirs": str(tmp_path / "data")})
    (tmp_path / "data" / ADOPTED_FILE).touch()
    setup.client_file.unlink()
    with pytest.raises(SecureSetupError, match="belongs to a cluster"):
        secure_single({"log.dirs": str(tmp_path / "data")})
    assert not setup.client_file.exists()
