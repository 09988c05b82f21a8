"""Message classes, one module per API. Written by tools/generate_messages.py."""
