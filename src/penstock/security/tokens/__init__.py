"""Delegation tokens (KIP-48): their data, and the operations on them."""
