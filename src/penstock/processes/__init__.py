"""Servers as processes of their own: brokers, and ZooKeeper."""
