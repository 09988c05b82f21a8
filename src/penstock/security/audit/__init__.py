"""The audit trail: selects events, encodes them, reads and verifies a trail."""
