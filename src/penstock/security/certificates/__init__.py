"""A private certificate authority, so that users need not make certificates by hand. Uses cryptography."""
