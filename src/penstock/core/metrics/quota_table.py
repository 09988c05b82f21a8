"""The part of the table that is about quotas of clients and the room for requests; see `table`.

Labels are the entities that an operator gave quotas to, `<default>` for a default: clients cannot make new ones.
"""

from __future__ import annotations

from penstock.core.metrics.metric import COUNTER as _C
from penstock.core.metrics.metric import GAUGE as _G
from penstock.core.metrics.metric import Metric, section

_THROTTLE_TIME = "How long the throttled requests of the last seconds were held back, on average; 0 where none was."

QUOTA_METRICS: tuple[Metric, ...] = (
    *section(
        "kafka_server_produce",
        ("byte_rate{user,client_id}", _G, "bytes/s", "", "Bytes written by the clients that a quota is for."),
        ("throttle_time{user,client_id}", _G, "milliseconds", "", _THROTTLE_TIME),
    ),
    *section(
        "kafka_server_fetch",
        ("byte_rate{user,client_id}", _G, "bytes/s", "", "Bytes read by the clients that a quota is for."),
        ("throttle_time{user,client_id}", _G, "milliseconds", "", _THROTTLE_TIME),
    ),
    *section(
        "kafka_server_request",
        (
            "request_time{user,client_id}",
            _G,
            "percent",
            "",
            "Share of the event loop that the clients of a quota take; 100 is the loop.",
        ),
        ("throttle_time{user,client_id}", _G, "milliseconds", "", _THROTTLE_TIME),
    ),
    *section(
        "kafka_server_controllermutation",
        (
            "mutation_rate{user,client_id}",
            _G,
            "partitions/s",
            "",
            "Partitions made and deleted by the clients that a quota is for.",
        ),
        ("throttle_time{user,client_id}", _G, "milliseconds", "", _THROTTLE_TIME),
    ),
    *section(
        "kafka_server_producerids",
        (
            "rate{user,client_id}",
            _G,
            "ids/s",
            "",
            "Producer ids new to a partition, and new transactional ids, of the users that a quota is for (KIP-936).",
        ),
        ("throttle_time{user,client_id}", _G, "milliseconds", "", _THROTTLE_TIME),
    ),
    *section(
        "penstock",
        (
            "throttled_requests_total{quota}",
            _C,
            "requests",
            "quotas.throttled",
            "Requests after which the client was held back, by the quota that was used up; for producer_ids_rate, ids.",
        ),
        (
            "throttled_connections",
            _G,
            "connections",
            "",
            "Connections that are left unread now because of a quota.",
        ),
        (
            "connections_throttled_total",
            _C,
            "connections",
            "sockets.throttled",
            "Connections held and closed because their address connects faster than connection_creation_rate.",
        ),
        (
            "connections_delayed_total",
            _C,
            "connections",
            "sockets.delayed",
            "Connections that waited for their turn because of max.connection.creation.rate.",
        ),
        (
            "request_backlog_bytes",
            _G,
            "bytes",
            "",
            "Requests in memory that are not whole, wait, or are large and being served.",
        ),
        (
            "request_backlog_pauses_total",
            _C,
            "connections",
            "sockets.backlog_pauses",
            "How often a connection was not read because there was no room for more requests.",
        ),
        (
            "request_backlog_evictions_total",
            _C,
            "connections",
            "sockets.backlog_evictions",
            "Connections closed because they held room that others needed and sent nothing.",
        ),
    ),
)
