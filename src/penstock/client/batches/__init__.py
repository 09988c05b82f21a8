"""Record batches in a client: builds and parses them. Bytes and decisions, no I/O."""
