"""Decodes Protobuf payloads to columns: all rows take the same step at a time; protobuf's runtime reads the rest."""

from penstock.serdes.columns.protobuf.decoder import ProtobufColumns

__all__ = ["ProtobufColumns"]
