"""The registry and the REST proxy: beside a second registry, an empty request, and a Kafka client."""
