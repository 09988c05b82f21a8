"""The controller: its election, and the path of a change into the metadata store."""
