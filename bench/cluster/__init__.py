"""Three Penstock brokers with their ZooKeeper beside three nodes of Apache Kafka: the same rows, alternating rounds."""
