"""The function for each kind of node, which makes the node's rows. A new kind of node is one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock.streams.lowering import aggregates, deduplication, joins, lookups, machine_nodes, row_functions, stateless
from penstock.streams.topology import nodes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.streams.lowering.context import Context

# A node, the rows of its inputs in their order, and the query's context.
Lowering: TypeAlias = "Callable[[Any, list[DataFrame], Context], DataFrame]"

LOWERINGS: Final[Mapping[type[nodes.Node], Lowering]] = {
    nodes.Filter: stateless.lower_filter,
    nodes.Map: stateless.lower_map,
    nodes.FlatMap: stateless.lower_flat_map,
    nodes.SelectKey: stateless.lower_select_key,
    nodes.Merge: stateless.lower_merge,
    nodes.Retyped: stateless.lower_retyped,
    nodes.Repartition: stateless.lower_repartition,
    nodes.Aggregate: aggregates.lower_aggregate,
    nodes.MapRows: row_functions.lower_map_rows,
    nodes.Peek: row_functions.lower_peek,
    nodes.Deduplicate: deduplication.lower_deduplicate,
    nodes.StreamJoin: joins.lower_stream_join,
    nodes.TableJoin: joins.lower_table_join,
    nodes.StreamTableJoin: lookups.lower_stream_table_join,
    nodes.Fold: machine_nodes.lower_fold,
    nodes.ForeignKeyJoin: machine_nodes.lower_foreign_key_join,
    nodes.Process: machine_nodes.lower_process,
}
