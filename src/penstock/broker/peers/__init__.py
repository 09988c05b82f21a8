"""Other brokers of the cluster, as this one reaches them."""
