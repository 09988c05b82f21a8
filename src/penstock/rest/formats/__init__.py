"""The formats of keys and values in HTTP bodies: base64, JSON, or data with a schema."""
