"""How a cluster is, as its brokers tell it over the wire: what was seen, what is wrong, what may be restarted."""
