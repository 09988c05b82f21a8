"""The broker keys of the audit trail."""

from __future__ import annotations

from penstock.core.config.types import ConfigKey, ConfigKind, Importance, OneOf, Range

_LOW = Importance.LOW

AUDIT_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey(
        "penstock.audit.file",
        ConfigKind.STRING,
        "",
        "Where the audit trail is written, one CloudEvents JSON object a line; a relative path lies in the first data "
        "directory. Empty writes no file.",
    ),
    ConfigKey(
        "penstock.audit.topic.enable",
        ConfigKind.BOOLEAN,
        False,
        "Whether the audit trail is written to the topic `__penstock_audit`, which only brokers write to.",
    ),
    ConfigKey(
        "penstock.audit.kinds",
        ConfigKind.LIST,
        ("login", "denial", "change"),
        "What is kept: logins, denials and changes; reads and writes of records, merged per minute, when asked for.",
        rule=OneOf(("login", "denial", "change", "read", "write")),
    ),
    ConfigKey(
        "penstock.audit.excluded.principals",
        ConfigKind.LIST,
        (),
        "Whose reads and writes are not kept, as `User:name`. Logins, denials and changes of everybody are kept.",
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.audit.file.max.bytes",
        ConfigKind.LONG,
        100 * 1024 * 1024,
        "The size at which the audit file is closed, renamed and begun anew.",
        rule=Range(1024),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.audit.file.count",
        ConfigKind.INT,
        10,
        "How many closed audit files are kept; -1 keeps all of them.",
        rule=Range(-1),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.audit.queue.max.events",
        ConfigKind.INT,
        10_000,
        "How many events may wait to be written. What comes while the queue is full follows `penstock.audit.full`.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.audit.full",
        ConfigKind.STRING,
        "drop",
        "What happens while the queue is full: `drop` serves requests and drops their events, which leaves a gap in "
        "the numbers; `refuse` refuses requests that would be audited.",
        rule=OneOf(("drop", "refuse")),
    ),
    ConfigKey(
        "penstock.audit.topic.partitions",
        ConfigKind.INT,
        1,
        "Partitions of `__penstock_audit` when it is created.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.audit.topic.replication.factor",
        ConfigKind.SHORT,
        3,
        "Replicas of `__penstock_audit` when it is created. A broker without others creates one.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.audit.topic.retention.ms",
        ConfigKind.LONG,
        2_592_000_000,
        "How long `__penstock_audit` keeps events, as its `retention.ms` when it is created: 30 days.",
        rule=Range(-1),
        importance=_LOW,
    ),
)
