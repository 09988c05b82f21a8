"""Topics as tables: questions, bytes and first rows."""
