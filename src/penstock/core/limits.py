"""Limits that no configuration key sets, each with its reason. What a user may tune is in `core.config.table`."""

from __future__ import annotations

# A topic's name and a partition number name a directory: 249 + "-" + up to 5 digits stays within the 255 bytes of a
# file name on every file system we know of. Kafka's number.
MAX_TOPIC_NAME_LENGTH = 249

# Kafka's controller refuses to write more than this many records for one request, so clients and tools already live
# with it. It keeps one request from holding the controller, and the store's transaction, for more than about a second.
MAX_PARTITIONS_PER_REQUEST = 10_000

# Producer ids are handed out from blocks, so that only one in a thousand costs a durable write. Kafka's number.
PRODUCER_ID_BLOCK_SIZE = 1_000
# Producer ids are 64-bit and never negative: -1 means none.
MAX_PRODUCER_ID = 2**63 - 1

# The kernel blocks a writer while too much of its memory is written and not on disk (20 % as a rule), and the writer
# here is the event loop. So a thread begins write-back of a log after this many bytes: large enough for the disk to
# work in long stretches, small enough that hundreds of logs stay far below the kernel's limit.
WRITE_BACK_BYTES = 8 * 1024 * 1024

# ZooKeeper drops the connection at a larger request (jute.maxbuffer is 1 MiB less one byte, path and headers included,
# which take less than 4 KiB). Every store has the same limit, so that metadata which fits one fits the other.
MAX_STORE_VALUE_BYTES = 1_044_480
# One transaction of ZooKeeper is one request. Half of what fits leaves room for what the server adds when it writes the
# transaction to its log and sends it to other servers, and no transaction holds up other clients for long.
MAX_STORE_TRANSACTION_BYTES = 524_288
MAX_STORE_TRANSACTION_OPERATIONS = 2_000
# Paths are ours, but they contain topic names and broker ids from outside.
MAX_STORE_PATH_LENGTH = 1_024

# Values of configuration keys go into one store node per resource. The longest that make sense (lists of throttled
# replicas of a large topic) are far below this; a longer one is refused before it is parsed.
MAX_CONFIG_VALUE_LENGTH = 100_000

# A properties file is read whole. Kafka's own is 6 KB; a larger file than this is not a properties file.
MAX_PROPERTIES_FILE_BYTES = 1_048_576
