"""Numbers that exist anyway, read when somebody scrapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from penstock.broker.broker import Broker
from penstock.broker.partitions.partition import Partition
from penstock.broker.upkeep.compaction import Compaction
from penstock.core.metrics.counters import Labels, Number
from penstock.groups.classic.group import GroupState
from penstock.server.net.listener import TcpListener

_CONSUMER_STATES = (
    GroupState.EMPTY,
    GroupState.ASSIGNING,
    GroupState.RECONCILING,
    GroupState.STABLE,
    GroupState.DEAD,
)
_RUNNING = 3  # Kafka's number for a broker that serves


def register_gauges(broker: Broker, listeners: Sequence[TcpListener]) -> None:
    gauges = {
        **_server_gauges(broker, listeners),
        **_replica_gauges(broker),
        **_log_gauges(broker),
        **_controller_gauges(broker),
        **_group_gauges(broker),
        **_transaction_gauges(broker),
    }
    for name, read in gauges.items():
        broker.metrics.register_gauge(name, read)


Gauges = dict[str, Callable[[], Number | list[tuple[Labels, Number]]]]


def _server_gauges(broker: Broker, listeners: Sequence[TcpListener]) -> Gauges:
    return {
        "kafka_server_socket_server_metrics_connection_count": lambda: [
            ((listener.name,), listener.connection_count) for listener in listeners
        ],
        "kafka_server_delayedoperationpurgatory_purgatorysize": lambda: [
            (("Fetch",), len({waiter for partition in broker.partitions for waiter in partition.waiters}))
        ],
        "kafka_server_fetchsessioncache_numincrementalfetchsessions": lambda: len(broker.fetch_sessions),
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached": lambda: (
            broker.fetch_sessions.partition_count
        ),
        "kafka_server_kafkaserver_brokerstate": lambda: _RUNNING,
    }


def _replica_gauges(broker: Broker) -> Gauges:
    prefix = "kafka_server_replicamanager_"
    return {
        prefix + "partitioncount": lambda: len(broker.partitions),
        prefix + "leadercount": lambda: sum(p.state.leader == broker.node_id for p in broker.partitions),
        prefix + "offlinereplicacount": lambda: len(broker.directories.offline_logs),
        prefix + "underreplicatedpartitions": lambda: sum(
            len(p.state.isr) < len(p.state.replicas) for p in broker.partitions
        ),
        prefix + "underminisrpartitioncount": lambda: sum(
            len(p.state.isr) < p.log.settings.min_insync_replicas for p in broker.partitions
        ),
        prefix + "produceridcount": lambda: sum(len(p.log.producers.active()) for p in broker.partitions),
    }


def _log_gauges(broker: Broker) -> Gauges:
    def each(read: Callable[[Partition], int]) -> Callable[[], list[tuple[Labels, Number]]]:
        return lambda: [
            ((p.topic_partition.topic, str(p.topic_partition.partition)), read(p)) for p in broker.partitions
        ]

    return {
        "kafka_log_log_size": each(lambda partition: partition.log.size),
        "kafka_log_log_logstartoffset": each(lambda partition: partition.log.log_start_offset),
        "kafka_log_log_logendoffset": each(lambda partition: partition.log.log_end_offset),
        "kafka_log_log_numlogsegments": each(lambda partition: len(partition.log.segments)),
        "kafka_log_logmanager_offlinelogdirectorycount": lambda: len(broker.directories.offline),
        "kafka_log_logmanager_logdirectoryoffline": lambda: [
            ((str(path),), int(path in broker.directories.offline))
            for path in {**broker.directories.directories, **broker.directories.offline}
        ],
    }


def register_cleaner_gauges(broker: Broker, compaction: Compaction) -> None:
    cleaner, manager = "kafka_log_logcleaner_", "kafka_log_logcleanermanager_"
    metrics, directories = broker.metrics.cleaner, broker.directories.directories

    def uncleanable_counts() -> list[tuple[Labels, Number]]:
        marked = [log.directory.parent for log in compaction.uncleanable_logs()]
        return [((str(path),), marked.count(path)) for path in directories]

    gauges: Gauges = {
        cleaner + "cleaner_recopy_percent": lambda: metrics.recopy_percent,
        cleaner + "max_buffer_utilization_percent": lambda: metrics.max_buffer_utilization_percent,
        cleaner + "max_clean_time_secs": lambda: metrics.max_clean_time_seconds,
        cleaner + "max_compaction_delay_secs": lambda: metrics.max_compaction_delay_seconds,
        cleaner + "deadthreadcount": lambda: 0,
        manager + "max_dirty_percent": lambda: metrics.max_dirty_percent,
        manager + "time_since_last_run_ms": lambda: broker.clock.now_ms() - metrics.last_run_ms,
        manager + "uncleanable_partitions_count": uncleanable_counts,
        manager + "uncleanable_bytes": lambda: [
            ((str(path),), compaction.uncleanable_bytes(path)) for path in directories
        ],
    }
    for name, read in gauges.items():
        broker.metrics.register_gauge(name, read)


def _controller_gauges(broker: Broker) -> Gauges:
    prefix = "kafka_controller_kafkacontroller_"

    def partition_states() -> Iterator[tuple[str, int]]:
        for topic in broker.metadata.image.topics.values():
            for state in topic.partitions:
                yield topic.name, state.partition

    return {
        prefix + "activecontrollercount": lambda: int(broker.metadata.is_controller),
        prefix + "activebrokercount": lambda: len(broker.metadata.image.brokers),
        prefix + "globaltopiccount": lambda: len(broker.metadata.image.topics),
        prefix + "globalpartitioncount": lambda: sum(1 for _ in partition_states()),
        prefix + "offlinepartitionscount": lambda: sum(
            not broker.partitions.is_online(topic, partition) for topic, partition in partition_states()
        ),
    }


def _transaction_gauges(broker: Broker) -> Gauges:
    prefix, transactions = "kafka_coordinator_transaction_transactionmarkerchannelmanager_", broker.transactions
    return {
        prefix + "logappendretryqueuesize": lambda: transactions.waiting_markers,
        "penstock_transactional_ids": lambda: [
            ((state.title,), count) for state, count in transactions.coordinator.transaction_counts().items()
        ],
    }


def _group_gauges(broker: Broker) -> Gauges:
    prefix = "kafka_coordinator_group_groupmetadatamanager_"
    coordinator = broker.groups.coordinator

    def in_state(state: GroupState) -> Callable[[], Number]:
        return lambda: coordinator.group_counts()[state]

    def by_protocol() -> list[tuple[Labels, Number]]:
        total, consumer = coordinator.group_counts().total(), coordinator.consumer_group_counts().total()
        return [(("classic",), total - consumer), (("consumer",), consumer)]

    def consumer_states() -> list[tuple[Labels, Number]]:
        counts = coordinator.consumer_group_counts()
        return [((state.value.lower(),), counts[state]) for state in _CONSUMER_STATES]

    return {
        prefix + "numgroups": lambda: coordinator.group_counts().total(),
        prefix + "numgroupsempty": in_state(GroupState.EMPTY),
        prefix + "numgroupspreparingrebalance": in_state(GroupState.PREPARING_REBALANCE),
        prefix + "numgroupscompletingrebalance": in_state(GroupState.COMPLETING_REBALANCE),
        prefix + "numgroupsstable": in_state(GroupState.STABLE),
        prefix + "numgroupsdead": in_state(GroupState.DEAD),
        prefix + "numoffsets": coordinator.offset_count,
        "kafka_server_group_coordinator_metrics_group_count": by_protocol,
        "kafka_server_group_coordinator_metrics_consumer_group_count": consumer_states,
    }
