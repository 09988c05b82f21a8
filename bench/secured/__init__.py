"""What security costs, us and Apache Kafka: TLS, logins, ACLs, and a flood of handshakes beside a client."""
