"""Fetches the jars that pom.xml names into .cache/."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from apache_kafka.jars import REPOSITORY, fetch_into

POM = Path(__file__).with_name("pom.xml")


def connector_version() -> str:
    found = re.search(r"<connector\.version>([^<]+)<", POM.read_text())
    assert found is not None, "pom.xml names the version once"
    return found.group(1)


def fetch_connector_jars() -> list[Path]:
    """Fetched on first use; PeerUnavailableError says what is missing."""
    version = connector_version()
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    directory = REPOSITORY / ".cache" / f"spark-connector-{version}-{digest}"
    return sorted(fetch_into(directory, POM, f"Spark's Kafka connector {version}").glob("*.jar"))
