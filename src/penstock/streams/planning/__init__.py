"""From a topology to the Spark queries that run it, and how that is drawn and recognised. Pure."""
