"""SASL: both sides of every mechanism, as exchanges of tokens without I/O."""
