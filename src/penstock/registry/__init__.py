"""The schema registry: schemas by subject and version, over HTTP, kept in a topic of any Kafka cluster."""
