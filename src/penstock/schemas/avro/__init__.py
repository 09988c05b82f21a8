"""Avro: schemas as Java's library parses, prints and compares them."""
