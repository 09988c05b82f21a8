"""JSON Schema, drafts 4 to 2020-12: reads, resolves and compares schemas. Never fetches a schema over the network."""
