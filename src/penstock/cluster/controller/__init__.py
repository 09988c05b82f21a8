"""Who may change the metadata, and how a change gets into the store."""
