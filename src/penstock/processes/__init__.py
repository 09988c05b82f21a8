"""Servers as processes: brokers, ZooKeeper."""
