"""Protobuf: .proto files read, printed, linked and compared. Needs no compiler, and no files."""
