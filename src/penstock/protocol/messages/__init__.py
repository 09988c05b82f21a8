"""Message classes, one module per API. Written by tools/write_messages.py."""
