"""The topics that brokers write for themselves. Kafka marks them internal: clients see them and may not write to them.

`__share_group_state` is Kafka's for share groups, and nothing here creates or writes it: in a directory that Kafka has
written, and in Kafka's answers, the topic is internal like the others.
"""

from __future__ import annotations

from typing import Final

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"

# The audit trail of all brokers.
AUDIT: Final = "__penstock_audit"

INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE, AUDIT})
# Only brokers write to these: no right and no client id lets a client write.
WRITTEN_BY_BROKERS_ALONE = frozenset({AUDIT})
