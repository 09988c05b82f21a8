"""The cleaner's own process: what it is told, what it answers, and how the broker starts and ends it."""
