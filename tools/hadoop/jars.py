"""Fetches the jars that pom.xml names into .cache/."""

from __future__ import annotations

from pathlib import Path

from apache_kafka.jars import fetch_jars_of, version_in

POM = Path(__file__).with_name("pom.xml")


def fetch_hadoop_jars() -> Path:
    return fetch_jars_of(POM, "hadoop", version_in(POM, "hadoop.version"))
