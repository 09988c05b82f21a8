"""The audit trail at work: what requests tell of themselves, the queue, and the writers to a file and to a topic."""
