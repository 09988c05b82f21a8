"""Apache Kafka as a peer: its jars, a single-node broker, and its command-line tools.

The interop tests use it as the oracle and the benchmark as the yardstick. Needs Java 17 and Maven; nothing else does.
"""
