"""The audit trail: what is worth keeping, how an event is written down, and how a trail is read and checked."""
