"""Servers as processes of their own: brokers, and the ZooKeeper whose jars Spark brings."""
