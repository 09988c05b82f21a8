"""The rules of replication, and the state machine of a leader. Pure: no clock, no loop, no I/O."""
