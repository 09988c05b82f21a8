"""Fetches the jars that pom.xml names into .cache/."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from apache_kafka.jars import REPOSITORY, fetch_into

POM = Path(__file__).with_name("pom.xml")


def fetch_hadoop_jars() -> Path:
    """Their directory, filled on first use; PeerUnavailableError says what is missing."""
    found = re.search(r"<hadoop\.version>([^<]+)<", POM.read_text())
    assert found is not None, "pom.xml names the version once"
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    return fetch_into(REPOSITORY / ".cache" / f"hadoop-{found[1]}-{digest}", POM, f"Hadoop {found[1]}")
