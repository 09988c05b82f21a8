"""A cluster on this machine: ZooKeeper and brokers as processes, or brokers on one loop with their store in memory."""
