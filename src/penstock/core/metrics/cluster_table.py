"""The part of the table that is about replicas, the controller and the store; see `table`.

Only the controller publishes what the controller alone knows for sure; other brokers publish 0, as in Kafka with
ZooKeeper: a sum over the brokers is right.
"""

from __future__ import annotations

from penstock.core.metrics.metric import COUNTER as _C
from penstock.core.metrics.metric import GAUGE as _G
from penstock.core.metrics.metric import HISTOGRAM as _H
from penstock.core.metrics.metric import Metric, section

CLUSTER_METRICS: tuple[Metric, ...] = (
    # Replicas of this broker.
    *section(
        "kafka_server_replicamanager",
        ("partitioncount", _G, "partitions", "", "Partitions with a replica on this broker."),
        ("leadercount", _G, "partitions", "", "Partitions this broker leads."),
        (
            "offlinereplicacount",
            _G,
            "partitions",
            "",
            "Partitions that are offline here because their files failed. Alert above 0.",
        ),
        (
            "underreplicatedpartitions",
            _G,
            "partitions",
            "",
            (
                "Partitions led here whose in-sync set is smaller than their replica set, without those that are being "
                "added. Alert above 0."
            ),
        ),
        (
            "underminisrpartitioncount",
            _G,
            "partitions",
            "",
            (
                "Partitions led here with fewer in-sync replicas than min.insync.replicas: writes with acks=all are "
                "refused. Alert above 0."
            ),
        ),
        (
            "atminisrpartitioncount",
            _G,
            "partitions",
            "",
            (
                "Partitions led here with as many in-sync replicas as min.insync.replicas: the loss of one more stops "
                "writes with acks=all."
            ),
        ),
        ("reassigningpartitions", _G, "partitions", "", "Partitions led here whose replicas are being moved."),
        ("produceridcount", _G, "producers", "", "Idempotent producers remembered by all partitions together."),
        (
            "isrshrinks_total",
            _C,
            "changes",
            "replicas.isr_shrinks",
            "Times that a leader here had replicas taken out of an in-sync set, because they lagged.",
        ),
        (
            "isrexpands_total",
            _C,
            "changes",
            "replicas.isr_expands",
            "Times that a leader here had replicas taken into an in-sync set.",
        ),
        (
            "failedisrupdates_total",
            _C,
            "changes",
            "replicas.failed_isr_updates",
            "Changes of in-sync sets that the controller refused or did not answer.",
        ),
    ),
    # Replication.
    *section(
        "kafka_server_brokertopicmetrics",
        ("replicationbytesin_total", _C, "bytes", "replicas.bytes_in", "Bytes fetched from leaders."),
        ("replicationbytesout_total", _C, "bytes", "replicas.bytes_out", "Bytes sent to followers."),
        (
            "reassignmentbytesin_total",
            _C,
            "bytes",
            "replicas.reassigned_bytes_in",
            "Of the bytes fetched, those of replicas that are being added.",
        ),
        (
            "reassignmentbytesout_total",
            _C,
            "bytes",
            "replicas.reassigned_bytes_out",
            "Of the bytes sent, those for replicas that are being added.",
        ),
    ),
    *section(
        "kafka_server_replicafetchermanager",
        (
            "maxlag{clientId}",
            _G,
            "offsets",
            "",
            "How far the follower here that is furthest behind its leader's high watermark is, by the last fetch.",
        ),
    ),
    *section(
        "kafka_server_fetcherlagmetrics",
        (
            "consumerlag{clientId,topic,partition}",
            _G,
            "offsets",
            "",
            "The same for each partition that is behind, of which those that are furthest are told, 1,000 at most.",
        ),
    ),
    *section(
        "kafka_server_leaderreplication",
        ("byte_rate", _G, "bytes per second", "", "What leaders here send to throttled replicas not in sync."),
    ),
    *section(
        "kafka_server_followerreplication",
        ("byte_rate", _G, "bytes per second", "", "What throttled replicas here fetch while they are not in sync."),
    ),
    # The controller.
    *section(
        "kafka_controller_kafkacontroller",
        (
            "activecontrollercount",
            _G,
            "",
            "",
            "1 on the active controller, 0 elsewhere. The sum over a cluster must be 1.",
        ),
        (
            "activebrokercount",
            _G,
            "brokers",
            "",
            "Brokers that are registered and alive. 0 but on the active controller, as the rest of these.",
        ),
        ("fencedbrokercount", _G, "brokers", "", "Brokers that are registered and away."),
        ("globaltopiccount", _G, "topics", "", "Topics of the cluster."),
        ("globalpartitioncount", _G, "partitions", "", "Partitions of the cluster."),
        ("offlinepartitionscount", _G, "partitions", "", "Partitions without a leader. Alert above 0."),
        (
            "preferredreplicaimbalancecount",
            _G,
            "partitions",
            "",
            "Partitions that another broker leads than the first of their replicas.",
        ),
    ),
    *section(
        "kafka_controller_controllerstats",
        (
            "leaderelectionrateandtimems",
            _H,
            "milliseconds",
            "controller.leader_election_time_ms",
            "Time of the changes that gave partitions other leaders. Many partitions may be in one change.",
        ),
        (
            "uncleanleaderelections_total",
            _C,
            "partitions",
            "controller.unclean_elections",
            "Partitions that got a leader which was not in sync: records may be lost. Alert on any.",
        ),
    ),
    *section(
        "kafka_controller_controllereventmanager",
        ("eventqueuesize", _G, "events", "", "Changes of the metadata that wait for their turn here."),
        (
            "eventqueuetimems",
            _H,
            "milliseconds",
            "controller.queue_time_ms",
            "How long changes of the metadata waited for their turn.",
        ),
        (
            "eventqueueprocessingtimems",
            _H,
            "milliseconds",
            "controller.processing_time_ms",
            "How long changes of the metadata took: to decide, to write to the store, and to take effect here.",
        ),
    ),
    # The session with ZooKeeper. A broker that is alone has none of these.
    *section(
        "kafka_server_sessionexpirelistener",
        ("sessionstate{state}", _G, "", "", "1 for the state of the session: connected, suspended or ended."),
        (
            "zookeepersyncconnects_total",
            _C,
            "connections",
            "store.connects",
            "Times that the connection came back. The first one does not count.",
        ),
        ("zookeeperdisconnects_total", _C, "connections", "store.disconnects", "Times that the connection was lost."),
        (
            "zookeeperexpires_total",
            _C,
            "sessions",
            "store.expirations",
            "Sessions that ended although the broker lives. Alert on any.",
        ),
    ),
    *section(
        "kafka_server_zookeeperclientmetrics",
        (
            "zookeeperrequestlatencyms",
            _H,
            "milliseconds",
            "store.request_latency_ms",
            "Time from a request to ZooKeeper to its answer.",
        ),
    ),
)
