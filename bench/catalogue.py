"""Every load that is measured on running brokers, by the name that `--only` takes."""

from __future__ import annotations

from collections.abc import Callable

from bench.compaction import measure_compaction
from bench.deletion import measure_deletion
from bench.fetching import measure_fetching
from bench.loads import Figures, Scale, measure_large, measure_latency, measure_pipelined, measure_small
from bench.neighbours import measure_neighbours
from bench.rebalance import measure_rebalance
from bench.steady import measure_steady
from bench.transactions import measure_transactions
from penstock.testing.processes import ServerProcess

# Name -> what it does to a running broker in every round.
LOADS: dict[str, Callable[[ServerProcess, Scale], Figures]] = {
    "large": measure_large,
    "small": measure_small,
    "fetch": measure_fetching,
    "latency": measure_latency,
    "pipelined": measure_pipelined,
    "transactions": measure_transactions,
    "steady": measure_steady,
    "rebalance": measure_rebalance,
    "compaction": measure_compaction,
    "deletion": measure_deletion,
    "neighbours": measure_neighbours,
}
