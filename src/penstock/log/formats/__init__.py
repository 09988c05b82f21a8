"""Names and text files of a data directory, in Kafka's formats."""
