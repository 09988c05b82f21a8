"""The broker as a process: composition, signals, event loop."""
