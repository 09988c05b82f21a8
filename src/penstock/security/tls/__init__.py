"""TLS from Kafka's settings: makes contexts from stores, and principals from certificates. No sockets."""
