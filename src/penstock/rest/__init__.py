"""The REST proxy: produce, consume and administer over HTTP, against any Kafka cluster."""
