"""A picture of a large cluster on one broker: our administration, confluent-kafka's AdminClient, and Kafka's tools."""
