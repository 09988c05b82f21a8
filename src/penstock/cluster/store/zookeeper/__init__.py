"""The store of a cluster: ZooKeeper, by way of kazoo, which only `client` imports."""
