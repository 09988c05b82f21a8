"""The `penstock` command: one file per command group; decisions have their own files beside the commands."""
