"""Deltas between two metadata images: their encoding, their replay, their nodes in the store. Pure."""
