"""TLS from Kafka's settings: stores to contexts, certificates to principals. No sockets."""
