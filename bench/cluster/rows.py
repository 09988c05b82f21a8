"""What is compared of the clusters, and what is aimed at."""

from __future__ import annotations

from bench.rows import CPU_PARTS, Row

PARTS = {key: title for key, title in CPU_PARTS.items() if not key.startswith("pipelined")}

CLUSTER_ROWS = (
    Row("produce-1k", "produce 1 KiB, three replicas, acks=all", "MB/s", ratio_at_least=1.5),
    Row("produce-100b", "produce 100 B, three replicas, acks=all", "MB/s", decimals=1, ratio_at_least=1.5),
    Row("consume-1k", "consume 1 KiB", "MB/s", ratio_at_least=1.5),
    Row("consume-100b", "consume 100 B", "MB/s", decimals=1, ratio_at_least=1.5),
    Row("latency-p50", "one record at a time, acks=all: p50", "us"),
    Row("latency-p99", "one record at a time, acks=all: p99", "us", ratio_at_most=0.5),
    Row("steady-p50", "end to end, 1,000 records of 1 KiB a second: p50", "us"),
    Row("steady-p99", "end to end, 1,000 records of 1 KiB a second: p99", "us", ratio_at_most=0.5),
    Row("steady-p99.9", "end to end, 1,000 records of 1 KiB a second: p99.9", "us"),
    Row("steady-p99.worst", "the worst round's p99", "us", ratio_at_most=0.5),
    Row("cpu", "CPU of all processes for throughput and single records", "s", decimals=2, ratio_at_most=0.5),
    *(Row(f"{key}.cpu", f"of that: {title}", "s", decimals=2) for key, title in PARTS.items()),
    Row("steady.cpu", "CPU of all processes at the steady rate", "s", decimals=2, ratio_at_most=0.5),
    Row("memory-idle", "resident memory of all processes, idle", "MB", ratio_at_most=0.2),
    Row("memory-idle.proportional", "the same, pages that processes share counted once", "MB", ratio_at_most=0.2),
    Row("memory-idle.store", "of that: ZooKeeper", "MB"),
    Row("memory-loaded", "resident memory of all processes, after the loads", "MB", ratio_at_most=0.2),
    Row("memory-loaded.proportional", "the same, pages that processes share counted once", "MB", ratio_at_most=0.2),
    Row("memory-loaded.store", "of that: ZooKeeper", "MB"),
    Row(
        "start",
        "start of all processes until a new topic with three replicas takes a record",
        "s",
        decimals=2,
        ratio_at_most=0.33,
    ),
    Row("failover", "a leader is killed, equal sessions of 2 s", "s", decimals=2, ratio_at_most=1),
    Row("failover-client", "the same: pause of a client", "s", decimals=2, ratio_at_most=1),
    Row("failover-controller", "the same: the leader is the controller, too", "s", decimals=2, ratio_at_most=1),
    Row("failover-turn", "the same: longest turn of a broker's loop (0: below 100)", "ms"),
    Row("failover.default", "a leader is killed, Kafka's session of 9 s", "s", decimals=2),
    Row("failover-client.default", "the same: pause of a client", "s", decimals=2),
    Row("failover-controller.default", "the same: the leader is the controller, too", "s", decimals=2),
    Row("moves-quiet-p99", "writes to 500 partitions with two replicas: p99", "ms", decimals=1),
    Row("moves-p99", "the same while one replica of each moves: p99", "ms", decimals=1),
    Row("moves-times", "how many times as long that is", "times", decimals=2, value_at_most=2),
    Row("moves-kept-times", "the same for partitions that keep their leaders", "times", decimals=2, value_at_most=2),
    Row("moves-p50-times", "and for the median of all", "times", decimals=2),
    Row("moves-seconds", "until all have moved, throttled", "s", decimals=1),
    Row("moves.cpu", "CPU of all processes for that", "s", decimals=2),
    Row("moves-changes", "changes of the metadata for that", ""),
    Row("scale-creation", "10,000 partitions with three replicas are created", "s", decimals=1),
    Row("memory-scale", "resident memory of all processes then", "MB", ratio_at_most=0.2),
    Row("memory-scale.proportional", "the same, pages that processes share counted once", "MB", ratio_at_most=0.2),
    Row("memory-scale.store", "of that: ZooKeeper", "MB"),
    Row("scale-start", "start of all processes until all partitions are in sync", "s", decimals=1, ratio_at_most=0.33),
    Row("scale-failover", "a broker is killed: until each partition has another leader", "s", decimals=2),
)
