"""Fetches the jar that pom.xml names into .cache/."""

from __future__ import annotations

from pathlib import Path

from apache_kafka.jars import fetch_jars_of, version_in

POM = Path(__file__).with_name("pom.xml")


def fetch_serializers() -> Path:
    """The directory with the jar, which has Kafka's client and Avro's library inside of it."""
    return fetch_jars_of(POM, "confluent-serializers", version_in(POM, "pinot.version"), goal="copy")
