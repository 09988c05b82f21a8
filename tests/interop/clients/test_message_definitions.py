"""The generated message classes against the definitions inside Kafka's jars."""

from __future__ import annotations

import json
import re
import zipfile

import write_messages
from apache_kafka.jars import fetch_jars, kafka_version
from penstock.protocol.api_names import API_NAMES

JARS = ("kafka-clients", "kafka-group-coordinator", "kafka-transaction-coordinator")


def test_generated_messages_are_current_when_written_from_the_jars_again() -> None:
    jars = [str(fetch_jars() / f"{name}-{kafka_version()}.jar") for name in JARS]
    definitions = write_messages.read_definitions(jars)
    stale = []
    for name, document in definitions.items():
        if document["type"] == "response":
            continue
        base = name.removesuffix("Request")
        documents = [definitions[f"{base}Response"], document] if document["type"] == "request" else [document]
        path = write_messages.OUT / f"{write_messages.snake(base)}.py"
        if not path.exists() or path.read_text() != write_messages.render_module(base, documents):
            stale.append(path.name)
    assert stale == [], f"run: python tools/write_messages.py {' '.join(jars)}"


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
