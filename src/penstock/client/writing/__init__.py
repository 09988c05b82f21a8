"""How batches of one partition are written once and in order."""
