"""The generated message classes against the definitions inside Kafka's jars."""

from __future__ import annotations

import write_messages
from apache_kafka.jars import fetch_jars, kafka_version

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
