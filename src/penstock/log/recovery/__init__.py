"""Reading a partition back from its directory after a clean or an unclean stop, and cutting the end off a log."""
