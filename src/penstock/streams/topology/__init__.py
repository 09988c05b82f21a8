"""The topology of an application: its nodes and their assembly. Pure: no Spark, no broker."""
