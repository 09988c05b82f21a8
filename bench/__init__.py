"""Penstock and Apache Kafka under the same load, from the same client, in alternating rounds. Run by `make bench`."""
