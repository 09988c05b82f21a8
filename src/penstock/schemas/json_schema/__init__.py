"""JSON Schema, drafts 4 to 2020-12: read, resolved and compared. Nothing is ever fetched."""
