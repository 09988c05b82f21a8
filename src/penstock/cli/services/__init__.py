"""Services beside the broker: from the options of their commands to a running process."""
