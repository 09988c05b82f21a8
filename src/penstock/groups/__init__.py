"""The group coordinator as a sans-I/O state machine: operations return effects; replay of the log changes the state."""
