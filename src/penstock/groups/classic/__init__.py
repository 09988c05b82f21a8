"""State and rebalance of groups that speak the classic protocol."""
