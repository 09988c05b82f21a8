"""The part of the table that is about consumer groups; see `table`."""

from __future__ import annotations

from penstock.core.metrics.metric import COUNTER as _C
from penstock.core.metrics.metric import GAUGE as _G
from penstock.core.metrics.metric import Metric, section

GROUP_METRICS: tuple[Metric, ...] = (
    *section(
        "kafka_coordinator_group_groupmetadatamanager",
        ("numgroups", _G, "groups", "", "Groups coordinated here."),
        ("numgroupsempty", _G, "groups", "", "Groups that have offsets but no members."),
        ("numgroupspreparingrebalance", _G, "groups", "", "Groups whose members are joining."),
        ("numgroupscompletingrebalance", _G, "groups", "", "Groups whose leader computes the assignment."),
        ("numgroupsstable", _G, "groups", "", "Groups whose members have their assignments."),
        ("numgroupsdead", _G, "groups", "", "Groups that are being removed."),
        ("numoffsets", _G, "offsets", "", "Committed offsets held."),
    ),
    *section(
        "kafka_server_group_coordinator_metrics",
        ("offset_commit_total", _C, "offsets", "groups.offset_commits", "Offsets committed."),
        (
            "offset_expiration_total",
            _C,
            "offsets",
            "groups.offset_expirations",
            "Offsets removed because their retention ended.",
        ),
        (
            "offset_deletion_total",
            _C,
            "offsets",
            "groups.offset_deletions",
            "Offsets deleted on request or with their topic.",
        ),
        (
            "group_completed_rebalance_total",
            _C,
            "rebalances",
            "groups.completed_rebalances",
            "Rebalances that ended: a new generation, or a KIP-848 group stable again (Kafka leaves those out).",
        ),
        (
            "consumer_group_rebalance_total",
            _C,
            "rebalances",
            "groups.consumer_rebalances",
            "Rebalances of KIP-848 groups that began: each is a new epoch of its group.",
        ),
        ("group_count{protocol}", _G, "groups", "", "Groups coordinated here, by the protocol they speak."),
        ("consumer_group_count{state}", _G, "groups", "", "KIP-848 groups by their state."),
    ),
    *section(
        "penstock",
        (
            "group_sessions_expired_total",
            _C,
            "members",
            "groups.sessions_expired",
            "Members removed because their heartbeats stopped.",
        ),
        (
            "group_pending_joins",
            _G,
            "members",
            "",
            "Members that joined a group and were not heard of again so far.",
        ),
        ("group_pending_join_bytes", _G, "bytes", "", "Memory that these members take, roughly."),
        (
            "group_pending_joins_dropped_total",
            _C,
            "members",
            "groups.pending_joins_dropped",
            "Such members that had to make room for others, because a client, a group or the broker had too many.",
        ),
    ),
)
