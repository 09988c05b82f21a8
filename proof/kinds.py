"""The one table of the kinds of rounds. A new kind is a line here and a module with `run(task) -> Report`."""

from __future__ import annotations

from pathlib import Path

from proof.frame import Kind, Option

_PROCESSES = Option("--processes", "how many processes share the work", {"type": int, "default": 1, "metavar": "N"})
_ONLY = Option("--only", "this round alone", {"type": int, "metavar": "NUMBER"})

KINDS = (
    Kind(
        "crash",
        "proof.crash.rounds",
        "kill -9 a broker under load, again and again, and check what it kept",
        30,
        "kills",
    ),
    Kind(
        "exactly-once",
        "proof.crash.exactly_once",
        "copy records in transactions while broker and copier are killed: each must be in the copy once",
        100,
        "kills",
    ),
    Kind(
        "disk",
        "proof.disk.rounds",
        "let single file operations of a broker fail, and check what it kept",
        200,
        "failing operations",
        (_ONLY,),
    ),
    Kind(
        "damage",
        "proof.damage.rounds",
        "damage a broker's files, and check what a start makes of them",
        1_000,
        "damaged files",
        (
            _ONLY,
            Option(
                "--broker-share",
                "share of the rounds that start a whole broker (default: 0.02)",
                {"type": float, "default": 0.02, "metavar": "SHARE"},
            ),
        ),
        is_in_memory=True,
    ),
    Kind(
        "fuzz",
        "proof.fuzz.rounds",
        "send mutated requests to a broker's handlers by the million",
        200_000,
        "frames",
        (_PROCESSES, Option("--replay", "one frame of a finding alone, without its length", {"metavar": "HEX"})),
        is_in_memory=True,
    ),
    Kind(
        "logins",
        "proof.logins.rounds",
        "mutated logins against a broker: nobody gets in, and nothing breaks",
        200_000,
        "frames",
        is_in_memory=True,
    ),
    Kind(
        "hostile",
        "proof.hostile.rounds",
        "hostile connections against a broker that a good client uses",
        100,
        "connections, at once and again in turn",
    ),
    Kind(
        "history",
        "proof.history.rounds",
        "record a history with real clients while the broker is killed and paused, and judge it",
        20.0,
        "seconds",
        (
            Option("--bootstrap", "a broker that runs; without it, one is started", {"metavar": "HOST:PORT"}),
            Option("--topics", "how many to create", {"type": int, "default": 2, "metavar": "N"}),
            Option("--partitions", "of each topic", {"type": int, "default": 2, "metavar": "N"}),
            Option(
                "--faults",
                "for a broker started here",
                {"nargs": "*", "choices": ("kill", "pause"), "default": ("kill", "pause")},
            ),
            Option("--out", "save the history, one JSON object a line", {"type": Path, "metavar": "FILE"}),
            Option("--check", "judge a saved history instead", {"type": Path, "metavar": "FILE"}),
        ),
        is_timed=True,
        seedless="check",
    ),
    Kind(
        "cluster",
        "proof.cluster.rounds",
        "kill, pause, cut apart and fill up three brokers and their ZooKeeper under load, and check what they kept",
        34,
        "faults",
        (
            Option("--loopback", "no namespaces, as without root", {"action": "store_true"}),
            Option("--secure", "brokers know each other by TLS and a login", {"action": "store_true"}),
            Option("--fault", "these alone, in turn; a wrong name shows all", {"nargs": "+", "metavar": "NAME"}),
        ),
    ),
    Kind(
        "pipeline",
        "proof.pipeline.rounds",
        "kill -9 the broker, Spark's workers and the driver under a pipeline: each record must be in each output once",
        30,
        "kills",
        (
            Option("--cluster", "a Spark master and worker instead of local mode", {"action": "store_true"}),
            Option("--streams", "an application of streams instead of a pipeline", {"action": "store_true"}),
            Option(
                "--brokers",
                "how many brokers there are, of which any is killed (default: 1)",
                {"type": int, "default": 1, "metavar": "N"},
            ),
        ),
    ),
    Kind(
        "interrupts",
        "proof.pipeline.interrupts",
        "signal commands at every half second while they start Spark: they end soon, with one line, and leave nothing",
        24,
        "moments of each command",
        (
            Option(
                "--command",
                "which (default: all)",
                {"nargs": "+", "choices": ("pipeline", "streams", "sql", "follow"), "metavar": "NAME"},
            ),
        ),
    ),
    Kind(
        "recovery",
        "proof.recovery.rounds",
        "hurt a broker of a cluster, and measure how long its clients cannot write",
        10,
        "tries of each case",
        (
            Option(
                "--case",
                "which (default: all but the slow one): kill-leader, kill-controller, kill-both, stop, "
                "stop-controller, pause-leader, pause-defaults (slow), kill-thousand",
                {"nargs": "+", "metavar": "NAME"},
            ),
        ),
        count_option="--tries",
    ),
    Kind(
        "pauses",
        "proof.pauses.rounds",
        "pause ZooKeeper and one broker of three under an idempotent producer: each record must be there once",
        200,
        "pauses",
        (
            Option(
                "--busy",
                "loops that compute beside the cluster (default: 2)",
                {"type": int, "default": 2, "metavar": "N"},
            ),
        ),
    ),
    Kind(
        "kills",
        "proof.kills.rounds",
        "kill one broker of three after the other while applications begin, and tell what these see of it",
        30,
        "kills",
    ),
    Kind(
        "moving",
        "proof.moving.rounds",
        "move every partition of a topic to a new broker, and measure what clients feel of it",
        30.0,
        "seconds of quiet before the move",
        (
            Option("--partitions", "how many (default: 1,000)", {"type": int, "default": 1_000, "metavar": "N"}),
            Option("--bytes", "in each partition (default: 50,000)", {"type": int, "default": 50_000, "metavar": "N"}),
            Option("--records", "written a second (default: 200)", {"type": float, "default": 200.0, "metavar": "N"}),
            Option(
                "--rate",
                "of the throttle, in bytes a second (default: 1,000,000)",
                {"type": int, "default": 1_000_000, "metavar": "N"},
            ),
        ),
        is_timed=True,
    ),
    Kind(
        "moves",
        "proof.simulation.cluster.moves",
        "move replicas in virtual time, and kill each broker after each step of the move",
        1,
        "seeds",
        (
            _PROCESSES,
            Option(
                "--move",
                "which (default: all): replace-follower, replace-leader, replace-all, add, remove-follower, "
                "remove-leader, cancel, other-target",
                {"nargs": "+", "metavar": "NAME"},
            ),
            Option("--every", "only every Nth kill", {"type": int, "default": 1, "metavar": "N"}),
            Option("--kill", "one kill alone", {"type": int, "nargs": 2, "metavar": ("STEP", "BROKER")}),
        ),
    ),
    Kind(
        "simulation",
        "proof.simulation.run",
        "drive a broker, or several, in virtual time through many seeded schedules",
        1_000,
        "schedules",
        (
            _PROCESSES,
            Option(
                "--brokers", "how many brokers a schedule has (default: 1)", {"type": int, "default": 1, "metavar": "N"}
            ),
            Option("--trace", "print the trace of every schedule", {"action": "store_true"}),
        ),
    ),
)
