"""The metadata store in ZooKeeper. It uses kazoo, which only `client` imports."""
