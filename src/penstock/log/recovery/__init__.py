"""Loads a partition from its directory after a clean or an unclean shutdown, and truncates logs."""
