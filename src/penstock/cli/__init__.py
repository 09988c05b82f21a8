"""The `penstock` command: one file per command group, decisions in files of their own beside them."""
