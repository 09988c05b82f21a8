"""The transaction coordinator as a sans-I/O state machine: operations return effects; log replay changes the state."""
