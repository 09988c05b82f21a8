"""Protobuf payloads to columns: all rows take the same step at the same time, and protobuf's runtime reads the rest."""

from penstock.serdes.columns.protobuf.decoder import ProtobufColumns

__all__ = ["ProtobufColumns"]
