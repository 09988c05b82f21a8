"""Names and text files of a data directory, all of them Kafka's."""
