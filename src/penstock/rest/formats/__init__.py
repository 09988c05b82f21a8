"""What stands in a body for a key or a value: base64, JSON, or data with a schema."""
