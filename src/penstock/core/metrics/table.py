"""The table of published metrics: one line makes a metric appear in `/metrics` and in docs/reference/metrics.md.

Names are those that the Prometheus JMX exporter gives Kafka's MBeans with its usual rules (lower case, `PerSec`
counters as `_total`), so that dashboards made for Kafka work. What Kafka does not have begins with `penstock_`.
"""

from __future__ import annotations

from penstock.core.metrics.cluster_table import CLUSTER_METRICS
from penstock.core.metrics.group_table import GROUP_METRICS
from penstock.core.metrics.metric import COUNTER as _C
from penstock.core.metrics.metric import GAUGE as _G
from penstock.core.metrics.metric import HISTOGRAM as _H
from penstock.core.metrics.metric import Metric, section
from penstock.core.metrics.quota_table import QUOTA_METRICS

METRICS: tuple[Metric, ...] = (
    # Traffic by topic. The sample with an empty topic is the sum over all topics, deleted ones included.
    *section(
        "kafka_server_brokertopicmetrics",
        ("messagesin_total{topic}", _C, "records", "topics.messages_in", "Records appended by producers."),
        ("bytesin_total{topic}", _C, "bytes", "topics.bytes_in", "Bytes of record batches appended by producers."),
        ("bytesout_total{topic}", _C, "bytes", "topics.bytes_out", "Bytes of record batches sent to consumers."),
        (
            "bytesrejected_total{topic}",
            _C,
            "bytes",
            "topics.bytes_rejected",
            "Bytes of batches refused because they exceed max.message.bytes.",
        ),
        (
            "totalproducerequests_total{topic}",
            _C,
            "requests",
            "topics.produce_requests",
            "Produce requests, counted once for each partition they write to.",
        ),
        (
            "failedproducerequests_total{topic}",
            _C,
            "requests",
            "topics.failed_produce_requests",
            "Partitions of produce requests that were answered with an error of the broker's own.",
        ),
        (
            "totalfetchrequests_total{topic}",
            _C,
            "requests",
            "topics.fetch_requests",
            "Fetch requests, counted once for each partition they read.",
        ),
        (
            "failedfetchrequests_total{topic}",
            _C,
            "requests",
            "topics.failed_fetch_requests",
            "Partitions of fetch requests that were answered with an error of the broker's own.",
        ),
        (
            "invalidmessagecrcrecords_total{topic}",
            _C,
            "batches",
            "topics.invalid_crc_records",
            "Batches refused because their checksum is wrong.",
        ),
        (
            "invalidmagicnumberrecords_total{topic}",
            _C,
            "batches",
            "topics.invalid_magic_records",
            "Batches refused because of their format version.",
        ),
        (
            "invalidoffsetorsequencerecords_total{topic}",
            _C,
            "batches",
            "topics.invalid_sequence_records",
            "Batches refused because of their offsets or sequence numbers.",
        ),
        (
            "nokeycompactedtopicrecords_total{topic}",
            _C,
            "records",
            "topics.no_key_compacted_records",
            "Records without a key refused by a compacted topic.",
        ),
    ),
    # Schemas of records, for topics that have them checked.
    *section(
        "penstock_schema",
        (
            "refused_records_total",
            _C,
            "records",
            "schemas.refused_records",
            "Records refused because of their schema, at most 1,000 of a batch.",
        ),
        (
            "unchecked_batches_total",
            _C,
            "batches",
            "schemas.unchecked_batches",
            "Batches that producers have to send again, because their schemas could not be checked.",
        ),
        (
            "registry_failures_total",
            _C,
            "questions",
            "schemas.failed_questions",
            "Questions that the schema registry did not answer.",
        ),
    ),
    # Requests.
    *section(
        "kafka_network_requestmetrics",
        ("requests_total{request,version}", _C, "requests", "requests.requests", "Requests by API and version."),
        (
            "errors_total{request,error}",
            _C,
            "errors",
            "requests.errors",
            "Error codes in responses by API; NONE counts the successes, as in Kafka.",
        ),
        (
            "totaltimems{request}",
            _H,
            "milliseconds",
            "requests.total_time_ms",
            "Time from the last byte of a request to the hand-over of its response, waiting included.",
        ),
        ("requestbytes{request}", _H, "bytes", "requests.request_bytes", "Size of requests."),
    ),
    # Connections.
    *section(
        "kafka_server_socket_server_metrics",
        ("connection_count{listener}", _G, "connections", "", "Connections that are open now."),
        ("connection_creation_total", _C, "connections", "sockets.created", "Connections accepted."),
        ("connection_close_total", _C, "connections", "sockets.closed", "Connections closed, by either side."),
        ("successful_authentication_total", _C, "logins", "logins.succeeded", "Logins that succeeded."),
        ("failed_authentication_total", _C, "logins", "logins.failed", "Logins that were refused."),
        (
            "successful_reauthentication_total",
            _C,
            "logins",
            "logins.again",
            "Logins on a connection that had one already, and that succeeded (KIP-368).",
        ),
        (
            "failed_reauthentication_total",
            _C,
            "logins",
            "logins.failed_again",
            "Logins on a connection that had one already, and that were refused.",
        ),
        ("request_total", _C, "requests", "sockets.requests", "Requests received."),
        ("incoming_byte_total", _C, "bytes", "sockets.bytes_in", "Bytes received."),
        ("outgoing_byte_total", _C, "bytes", "sockets.bytes_out", "Bytes sent."),
    ),
    *section(
        "kafka_network_socketserver",
        (
            "expiredconnectionskilledcount_total",
            _C,
            "connections",
            "sockets.expired",
            "Connections closed because they were idle for longer than connections.max.idle.ms.",
        ),
    ),
    # Requests that wait, and fetch sessions (KIP-227).
    *section(
        "kafka_server_delayedoperationpurgatory",
        (
            "purgatorysize{delayedOperation}",
            _G,
            "requests",
            "",
            "Requests that wait for data, acknowledgements or members.",
        ),
        (
            "expires_total{delayedOperation}",
            _C,
            "requests",
            "purgatory.expired",
            "Requests whose waiting time ended before their condition was met.",
        ),
    ),
    *section(
        "kafka_server_fetchsessioncache",
        ("numincrementalfetchsessions", _G, "sessions", "", "Incremental fetch sessions held."),
        ("numincrementalfetchpartitionscached", _G, "partitions", "", "Partitions in incremental fetch sessions."),
        (
            "incrementalfetchsessionevictions_total",
            _C,
            "sessions",
            "purgatory.session_evictions",
            "Fetch sessions dropped to make room for others.",
        ),
    ),
    *section(
        "kafka_server_kafkaserver",
        (
            "brokerstate",
            _G,
            "",
            "",
            "State of the broker: 1 starting, 2 recovering its logs, 3 running, 6 shutting down.",
        ),
    ),
    # The log.
    *section(
        "kafka_log_log",
        ("size{topic,partition}", _G, "bytes", "", "Bytes of a partition's segments."),
        ("logstartoffset{topic,partition}", _G, "", "", "First offset of a partition."),
        ("logendoffset{topic,partition}", _G, "", "", "Offset that the next record of a partition will get."),
        ("numlogsegments{topic,partition}", _G, "segments", "", "Segments of a partition."),
    ),
    *section(
        "kafka_log_logflushstats",
        ("logflushrateandtimems", _H, "milliseconds", "logs.flush_time_ms", "Time of fsync calls."),
    ),
    *section(
        "kafka_log_logmanager",
        ("offlinelogdirectorycount", _G, "directories", "", "Log directories that failed. Alert above 0."),
        ("logdirectoryoffline{logDirectory}", _G, "", "", "1 where the log directory failed, 0 where it works."),
    ),
    # Compaction.
    *section(
        "kafka_log_logcleaner",
        ("cleaner_recopy_percent", _G, "percent", "", "Of the last cleaning: bytes written, of those read."),
        ("max_buffer_utilization_percent", _G, "percent", "", "How full the map of keys was in the last cleaning."),
        ("max_clean_time_secs", _G, "seconds", "", "Time of the last cleaning, its rests included."),
        ("max_compaction_delay_secs", _G, "seconds", "", "By how much max.compaction.lag.ms is exceeded at most."),
        ("deadthreadcount", _G, "threads", "", "Always 0: a cleaning that fails does not end the cleaner."),
    ),
    *section(
        "kafka_log_logcleanermanager",
        ("max_dirty_percent", _G, "percent", "", "Dirty part of the dirtiest log."),
        ("time_since_last_run_ms", _G, "milliseconds", "", "Since the cleaner last looked for work."),
        (
            "uncleanable_partitions_count{logDirectory}",
            _G,
            "partitions",
            "",
            "Partitions that are not compacted because a batch is damaged. Alert above 0.",
        ),
        ("uncleanable_bytes{logDirectory}", _G, "bytes", "", "Dirty bytes of those partitions."),
    ),
    *CLUSTER_METRICS,
    *QUOTA_METRICS,
    # Transactions.
    *section(
        "kafka_coordinator_transaction_transactionmarkerchannelmanager",
        ("logappendretryqueuesize", _G, "markers", "", "Markers that their partitions have not taken yet."),
    ),
    *section(
        "penstock", ("transactional_ids{state}", _G, "ids", "", "Transactional ids by the state of their transaction.")
    ),
    *GROUP_METRICS,
    # What Kafka has no metric for.
    *section(
        "penstock",
        (
            "connections_refused_total",
            _C,
            "connections",
            "sockets.refused",
            "Connections closed at once because a connection limit was reached.",
        ),
        (
            "expired_logins_total",
            _C,
            "connections",
            "logins.expired",
            "Connections closed because their login had expired and the client did not log in again.",
        ),
        (
            "unfinished_logins_total",
            _C,
            "connections",
            "logins.timed_out",
            "Connections closed because the client did not log in in time (`penstock.sasl.login.timeout.ms`).",
        ),
        (
            "malformed_requests_total{reason}",
            _C,
            "requests",
            "sockets.malformed",
            "Requests that were too large, truncated or undecodable; each closed its connection.",
        ),
        ("audit_events_total{kind}", _C, "events", "audit.events", "Events for the audit trail, repeats included."),
        (
            "audit_dropped_total{sink}",
            _C,
            "events",
            "audit.dropped",
            "Events that are missing in the file or the topic because its queue was full or the broker stopped.",
        ),
        (
            "audit_failures_total",
            _C,
            "writes",
            "audit.failures",
            "Failed writes of the audit trail, each of which is tried again.",
        ),
        ("http_connections", _G, "connections", "", "Connections of HTTP listeners that are open."),
        ("tls_handshakes_total", _C, "handshakes", "sockets.handshakes", "TLS handshakes that succeeded."),
        (
            "tls_handshake_failures_total{reason}",
            _C,
            "handshakes",
            "sockets.handshake_failures",
            "Connections to a TLS listener that were closed before they were served.",
        ),
        (
            "tls_revoked_connections_total",
            _C,
            "connections",
            "sockets.revoked",
            "Open connections that were closed because the client's certificate was revoked.",
        ),
        (
            "tls_handshakes_under_way{listener}",
            _G,
            "handshakes",
            "",
            "TLS handshakes that have begun and are not over. At most 120 for each listener.",
        ),
        (
            "tls_handshakes_waiting{listener}",
            _G,
            "connections",
            "",
            "Clients that wait until fewer TLS handshakes are under way.",
        ),
        (
            "tls_certificate_expiry_seconds{listener}",
            _G,
            "seconds",
            "",
            "Time until the certificate of a listener is no longer valid; negative afterwards.",
        ),
        (
            "tls_certificate_reloads_total",
            _C,
            "certificates",
            "sockets.certificate_reloads",
            "Certificates and trust stores that were loaded while the broker runs.",
        ),
        (
            "tls_certificate_refusals_total",
            _C,
            "certificates",
            "sockets.certificate_refusals",
            "Certificates and trust stores that were refused while the broker runs; the ones before stay in use.",
        ),
        ("http_requests_total{status}", _C, "requests", "http.answers", "Answers over HTTP, by status."),
        (
            "http_refused_total{reason}",
            _C,
            "requests",
            "http.refused",
            "HTTP requests and connections refused unseen: too many, too large, too slow, malformed, without a login.",
        ),
        (
            "log_segments_deleted_total",
            _C,
            "segments",
            "logs.segments_deleted",
            "Segments removed by retention, delete-records or topic deletion.",
        ),
        (
            "loop_slices_total{above_ms}",
            _C,
            "slices",
            "loop.slices",
            "Slices of the event loop above so many milliseconds, less the time spent waiting for a core.",
        ),
        ("cleanings_total", _C, "cleanings", "cleaner.cleanings", "Logs compacted, each time counted."),
        (
            "cleanings_failed_total",
            _C,
            "cleanings",
            "cleaner.cleanings_failed",
            "Cleanings given up, because a disk refused or the cleaner's process ended; each is tried again.",
        ),
        (
            "cleaner_bytes_read_total",
            _C,
            "bytes",
            "cleaner.bytes_read",
            "Bytes of segments that compaction copied from.",
        ),
        (
            "cleaner_bytes_written_total",
            _C,
            "bytes",
            "cleaner.bytes_written",
            "Bytes of segments that compaction wrote.",
        ),
        (
            "cleaner_records_removed_total",
            _C,
            "records",
            "cleaner.records_removed",
            "Records that compaction left out.",
        ),
        (
            "cleaner_slice_time_ms",
            _H,
            "milliseconds",
            "cleaner.slice_time_ms",
            "How long compaction worked between two turns of the event loop, where it runs in a thread.",
        ),
        ("build_info{version,python,platform}", _G, "", "", "Always 1; its labels say what runs."),
    ),
    # The process: these come from prometheus_client itself, on Linux.
    *section(
        "process",
        ("cpu_seconds_total", _C, "seconds", "process", "User and system CPU time."),
        ("virtual_memory_bytes", _G, "bytes", "process", "Virtual memory."),
        ("resident_memory_bytes", _G, "bytes", "process", "Resident memory."),
        ("start_time_seconds", _G, "seconds", "process", "Start time since the Unix epoch."),
        ("open_fds", _G, "files", "process", "Open file descriptors."),
        (
            "max_fds",
            _G,
            "files",
            "process",
            "Most file descriptors the process may open. Each partition and connection needs some.",
        ),
    ),
)

PROCESS_SOURCE = "process"
BY_NAME: dict[str, Metric] = {metric.name: metric for metric in METRICS}
