"""The output of the commands: rows and documents. Pure."""
