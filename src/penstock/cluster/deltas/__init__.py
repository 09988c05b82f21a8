"""The step from one metadata image to the next: its encoding, its replay, its nodes in the store. Pure."""
