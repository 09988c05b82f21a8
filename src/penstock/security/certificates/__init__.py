"""A private authority and what it signs, so that nobody has to make certificates by hand. Uses cryptography."""
