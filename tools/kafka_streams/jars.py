"""Fetches the jars that pom.xml names into .cache/."""

from __future__ import annotations

from pathlib import Path

from apache_kafka.jars import fetch_jars_of, version_in

POM = Path(__file__).with_name("pom.xml")


def streams_version() -> str:
    return version_in(POM, "kafka.version")


def fetch_streams_jars() -> Path:
    """The directory with the jars, fetched on first use."""
    return fetch_jars_of(POM, "kafka-streams", streams_version())
