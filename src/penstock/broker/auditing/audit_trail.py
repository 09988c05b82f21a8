"""Opens the trail from the settings: the sinks, and the number that continues the numbering."""

from __future__ import annotations

import asyncio
from pathlib import Path

from penstock.broker.auditing.event_numbers import FILE_NAME, Numbering
from penstock.broker.auditing.file_sink import FileSink
from penstock.broker.auditing.sink_queue import Sink
from penstock.broker.auditing.topic_sink import TopicSink
from penstock.broker.auditing.trail import AuditTrail
from penstock.broker.broker import Broker
from penstock.core.config.broker_config import BrokerConfig
from penstock.log.storage.files import Files
from penstock.security.audit.cloud_events import source_of


def audit_file(config: BrokerConfig) -> Path | None:
    name = config.audit.penstock_audit_file
    return Path(config.log_directories[0], name) if name else None


async def start_trail(trail: AuditTrail, broker: Broker, files: Files) -> None:
    """Raises OSError where the trail cannot be written: a broker that needs an audit trail does not start without the
    trail.
    """
    settings = broker.config.audit
    source = source_of(broker.metadata.image.cluster_id, broker.node_id)
    sinks: list[Sink] = []
    last_number = 0
    path = audit_file(broker.config)
    if path is not None:
        count = settings.penstock_audit_file_count
        file_sink = FileSink(path, source, settings.penstock_audit_file_max_bytes, count)
        last_number = await asyncio.to_thread(file_sink.open)
        sinks.append(file_sink)
    if settings.penstock_audit_topic_enable:
        sinks.append(TopicSink(broker, source))
    numbering = Numbering(Path(broker.config.log_directories[0], FILE_NAME), files)
    await trail.start(numbering, sinks, last_number)
