"""The metadata store: one interface, its implementations, the layout of its nodes."""
