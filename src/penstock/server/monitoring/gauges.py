"""Numbers that exist anyway, read when somebody scrapes.

What a gauge can tell at once is read by a callable. What needs a look at every partition, group or transaction is read
by a survey: one pass for all gauges about these things, one step for each of them, so that a scrape goes in slices
(ADR 13). A survey takes its list of things in the first step. The numbers of one partition are of one moment; two
partitions may be seen at different moments. A partition that is deleted before its step is not offline, it is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from penstock.broker.broker import Broker
from penstock.broker.partitions.purgatory import Waiter
from penstock.broker.upkeep.compaction import Compaction
from penstock.cluster.image import NO_LEADER, PartitionState, TopicImage
from penstock.core.metrics.counters import Survey
from penstock.core.metrics.samples import Labels, Number
from penstock.groups.classic.group import GroupState
from penstock.groups.consumer.group import ConsumerGroup
from penstock.replication.in_sync import required_in_sync
from penstock.server.net.listener import TcpListener
from penstock.transactions.state import TransactionState

_CONSUMER_STATES = (
    GroupState.EMPTY,
    GroupState.ASSIGNING,
    GroupState.RECONCILING,
    GroupState.STABLE,
    GroupState.DEAD,
)
_RUNNING = 3  # Kafka's number for a broker that serves


_PURGATORY = "kafka_server_delayedoperationpurgatory_"
_REPLICAS = "kafka_server_replicamanager_"
_LOG = "kafka_log_log_"
_CONTROLLER = "kafka_controller_kafkacontroller_"
_GROUPS = "kafka_coordinator_group_groupmetadatamanager_"
_GROUP_COUNTS = "kafka_server_group_coordinator_metrics_"

Samples = list[tuple[Labels, Number]]
Gauges = dict[str, Callable[[], Number | Samples]]


def register_gauges(broker: Broker, listeners: Sequence[TcpListener]) -> None:
    metrics = broker.metrics
    gauges = {
        **_server_gauges(broker, listeners),
        **_directory_gauges(broker),
        **_controller_gauges(broker),
        **_quota_gauges(broker, listeners),
    }
    for name, read in gauges.items():
        metrics.register_gauge(name, read)
    metrics.register_gauge(_GROUPS + "numoffsets", broker.groups.coordinator.offset_count)
    metrics.register_gauge("penstock_group_pending_joins", lambda: len(broker.groups.newcomers))
    metrics.register_gauge("penstock_group_pending_join_bytes", lambda: broker.groups.newcomers.size)
    metrics.register_survey(_PARTITION_GAUGES, lambda: _survey_partitions(broker))
    metrics.register_survey([_REPLICAS + "offlinereplicacount"], lambda: _survey_logs(broker))
    metrics.register_survey(_IMAGE_GAUGES, lambda: _survey_image(broker))
    metrics.register_survey(_GROUP_GAUGES, lambda: _survey_groups(broker))
    metrics.register_survey(["penstock_transactional_ids"], lambda: _survey_transactions(broker))


def _server_gauges(broker: Broker, listeners: Sequence[TcpListener]) -> Gauges:
    return {
        "kafka_server_socket_server_metrics_connection_count": lambda: [
            ((listener.name,), listener.connection_count) for listener in listeners
        ],
        "kafka_server_fetchsessioncache_numincrementalfetchsessions": lambda: len(broker.fetch_sessions),
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached": lambda: (
            broker.fetch_sessions.partition_count
        ),
        "kafka_server_kafkaserver_brokerstate": lambda: _RUNNING,
        "penstock_http_connections": lambda: broker.metrics.http.connections,
        "kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize": lambda: (
            broker.transactions.waiting_markers
        ),
    }


def _directory_gauges(broker: Broker) -> Gauges:
    return {
        "kafka_log_logmanager_offlinelogdirectorycount": lambda: len(broker.directories.offline),
        "kafka_log_logmanager_logdirectoryoffline": lambda: [
            ((str(path),), int(path in broker.directories.offline))
            for path in {**broker.directories.directories, **broker.directories.offline}
        ],
    }


def _controller_gauges(broker: Broker) -> Gauges:
    """The controller tells them, others tell 0, so that their sum over the brokers is right."""
    metadata, controller = broker.metadata, broker.metrics.controller

    def if_active(count: Callable[[], int]) -> Callable[[], int]:
        return lambda: count() if metadata.is_controller else 0

    return {
        _CONTROLLER + "activecontrollercount": if_active(lambda: 1),
        _CONTROLLER + "activebrokercount": if_active(lambda: len(metadata.image.brokers)),
        _CONTROLLER + "fencedbrokercount": if_active(
            lambda: len(metadata.image.registered) - len(metadata.image.brokers)
        ),
        _CONTROLLER + "globaltopiccount": if_active(lambda: len(metadata.image.topics)),
        "kafka_controller_controllereventmanager_eventqueuesize": lambda: controller.waiting,
    }


def _quota_gauges(broker: Broker, listeners: Sequence[TcpListener]) -> Gauges:
    quotas, now_ms = broker.quotas, broker.clock.monotonic_ms
    gauges: Gauges = {
        "penstock_throttled_connections": lambda: sum(listener.muted_count for listener in listeners),
        # All listeners share one.
        "penstock_request_backlog_bytes": lambda: listeners[0].backlog.size if listeners else 0,
    }
    for limit, prefix, rate in (
        (quotas.produce, "kafka_server_produce_", "byte_rate"),
        (quotas.fetch, "kafka_server_fetch_", "byte_rate"),
        (quotas.request, "kafka_server_request_", "request_time"),
        (quotas.mutation, "kafka_server_controllermutation_", "mutation_rate"),
        (quotas.new_producers.limit, "kafka_server_producerids_", "rate"),
    ):
        gauges[prefix + rate] = _reader(limit.rates, now_ms)
        gauges[prefix + "throttle_time"] = _reader(limit.throttle_times, now_ms)
    return gauges


def _reader(read: Callable[[int], Iterable[tuple[Labels, Number]]], now_ms: Callable[[], int]) -> Callable[[], Samples]:
    return lambda: list(read(now_ms()))


# ---- surveys

_PARTITION_GAUGES = (
    _LOG + "size",
    _LOG + "logstartoffset",
    _LOG + "logendoffset",
    _LOG + "numlogsegments",
    _REPLICAS + "partitioncount",
    _REPLICAS + "leadercount",
    _REPLICAS + "underreplicatedpartitions",
    _REPLICAS + "underminisrpartitioncount",
    _REPLICAS + "atminisrpartitioncount",
    _REPLICAS + "reassigningpartitions",
    _REPLICAS + "produceridcount",
    _PURGATORY + "purgatorysize",
)


def _survey_partitions(broker: Broker) -> Survey:
    """Costs 3 us for each partition."""
    sizes: Samples = []
    start_offsets: Samples = []
    end_offsets: Samples = []
    segment_counts: Samples = []
    leading = under_replicated = under_min_isr = at_min_isr = reassigning = producers = 0
    waiters: set[Waiter] = set()
    for partition in broker.partitions:
        log, state = partition.log, partition.state
        labels = (partition.topic_partition.topic, str(partition.topic_partition.partition))
        sizes.append((labels, log.size))
        start_offsets.append((labels, log.log_start_offset))
        end_offsets.append((labels, log.log_end_offset))
        segment_counts.append((labels, len(log.segments)))
        if state.leader == broker.node_id:  # so that each partition is told by one broker
            in_sync, replicas = len(state.isr), len(state.replicas)
            least = required_in_sync(log.settings.min_insync_replicas, replicas)
            leading += 1
            under_replicated += in_sync < replicas - len(state.adding)
            under_min_isr += in_sync < least
            at_min_isr += in_sync == least
            reassigning += bool(state.adding or state.removing)
        producers += len(log.producers.entries)
        waiters.update(partition.waiters)
        yield
    replicated = (leading, under_replicated, under_min_isr, at_min_isr, reassigning)
    numbers = (*replicated, producers, [(("Fetch",), len(waiters))])
    return dict(
        zip(
            _PARTITION_GAUGES,
            (sizes, start_offsets, end_offsets, segment_counts, len(sizes), *numbers),
            strict=True,
        )
    )


def _survey_logs(broker: Broker) -> Survey:
    offline = 0
    for log in list(broker.directories.logs.values()):
        offline += log.availability.offline_reason is not None and not log.availability.is_removed
        yield
    return {_REPLICAS + "offlinereplicacount": offline}


_IMAGE_GAUGES = (
    _CONTROLLER + "globalpartitioncount",
    _CONTROLLER + "offlinepartitionscount",
    _CONTROLLER + "preferredreplicaimbalancecount",
)


def _survey_image(broker: Broker) -> Survey:
    """Costs 0.5 us for each partition of the cluster, on the controller."""
    count = offline = imbalance = 0
    image = broker.metadata.image
    for topic in image.topics.values() if broker.metadata.is_controller else ():
        for state in topic.partitions:
            count += 1
            offline += _is_offline(broker, topic, state)
            imbalance += state.leader != state.replicas[0]
            yield
    return dict(zip(_IMAGE_GAUGES, (count, offline, imbalance), strict=True))


def _is_offline(broker: Broker, topic: TopicImage, state: PartitionState) -> bool:
    if state.leader != broker.node_id:
        return state.leader == NO_LEADER
    if broker.partitions.is_online(topic.name, state.partition):
        return False
    current = broker.metadata.image.topics.get(topic.name)  # the topic may have gone between two steps
    return current is not None and current.topic_id == topic.topic_id


_STATE_GAUGES = {
    _GROUPS + "numgroupsempty": GroupState.EMPTY,
    _GROUPS + "numgroupspreparingrebalance": GroupState.PREPARING_REBALANCE,
    _GROUPS + "numgroupscompletingrebalance": GroupState.COMPLETING_REBALANCE,
    _GROUPS + "numgroupsstable": GroupState.STABLE,
    _GROUPS + "numgroupsdead": GroupState.DEAD,
}
_GROUP_GAUGES = (
    *_STATE_GAUGES,
    _GROUPS + "numgroups",
    _GROUP_COUNTS + "group_count",
    _GROUP_COUNTS + "consumer_group_count",
)


def _survey_groups(broker: Broker) -> Survey:
    states: Counter[GroupState] = Counter()
    consumer_states: Counter[GroupState] = Counter()
    for group in broker.groups.coordinator.all_groups():
        states[group.state] += 1
        if isinstance(group, ConsumerGroup):
            consumer_states[group.state] += 1
        yield
    total, consumer_total = states.total(), consumer_states.total()
    return {
        **{name: states[state] for name, state in _STATE_GAUGES.items()},
        _GROUPS + "numgroups": total,
        _GROUP_COUNTS + "group_count": [(("classic",), total - consumer_total), (("consumer",), consumer_total)],
        _GROUP_COUNTS + "consumer_group_count": [
            ((state.value.lower(),), consumer_states[state]) for state in _CONSUMER_STATES
        ],
    }


def _survey_transactions(broker: Broker) -> Survey:
    states: Counter[TransactionState] = Counter()
    for transaction in broker.transactions.coordinator.all_transactions():
        states[transaction.state] += 1
        yield
    return {"penstock_transactional_ids": [((state.title,), count) for state, count in states.items()]}


# ---- compaction


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
