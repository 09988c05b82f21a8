"""The message definitions against the definitions inside Kafka's jars."""

from __future__ import annotations

import json
import re
import zipfile

import generate_messages
from apache_kafka.jars import fetch_jars, kafka_version
from penstock.protocol.api_names import API_NAMES

JARS = ("kafka-clients", "kafka-group-coordinator", "kafka-transaction-coordinator")


def test_definitions_are_current_when_read_from_the_jars_again() -> None:
    """That the modules follow from the definitions is checked by `make check`."""
    jars = [str(fetch_jars() / f"{name}-{kafka_version()}.jar") for name in JARS]
    assert generate_messages.read_jars(jars) == generate_messages.read_definitions(), (
        f"run: python tools/generate_messages.py --from {' '.join(jars)}"
    )


def test_api_names_are_current_when_read_from_the_jar_again() -> None:
    """Also those of APIs that are neither served nor generated."""
    names = {}
    with zipfile.ZipFile(fetch_jars() / f"kafka-clients-{kafka_version()}.jar") as archive:
        for entry in archive.namelist():
            if re.search(r"message/[A-Z]\w+Request\.json$", entry):
                text = re.sub(r"^\s*//.*$", "", archive.read(entry).decode(), flags=re.MULTILINE)
                document = json.loads(re.sub(r"(?<=[,{\[\]}\"])\s*//.*$", "", text, flags=re.MULTILINE))
                names[document["apiKey"]] = document["name"].removesuffix("Request")
    assert names == API_NAMES
