"""Fetches the jars that pom.xml names into .cache/."""

from __future__ import annotations

from pathlib import Path

from apache_kafka.jars import fetch_jars_of, version_in

POM = Path(__file__).with_name("pom.xml")


def connector_version() -> str:
    return version_in(POM, "connector.version")


def fetch_connector_jars() -> list[Path]:
    return sorted(fetch_jars_of(POM, "spark-connector", connector_version()).glob("*.jar"))
