"""Where the metadata is kept: one interface, its implementations, the layout of its nodes."""
