"""A cluster on this machine: brokers and their ZooKeeper as processes, or brokers on one loop."""
