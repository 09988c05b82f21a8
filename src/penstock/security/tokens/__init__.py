"""Delegation tokens (KIP-48): what they are, and what may be done with them."""
