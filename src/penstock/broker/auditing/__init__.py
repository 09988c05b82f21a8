"""The audit trail in a broker: the events of requests, the queue, and the writers to a file and to a topic."""
