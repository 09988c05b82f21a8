"""How requests find their broker: connections by address, what is known of the cluster, and who finds it out."""
