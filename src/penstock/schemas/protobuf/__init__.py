"""Protobuf: reads, prints, links and compares .proto files. Needs neither a compiler nor files on disk."""
