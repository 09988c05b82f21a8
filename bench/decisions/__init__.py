"""What a controller does about 200,000 partitions on ten brokers, at two levels of the metadata."""
