"""The security commands, one module each."""
