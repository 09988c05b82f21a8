"""Nexmark on streams: ours beside Java's Kafka Streams and quix-streams, on the same broker."""
