"""How long clients wait when a broker of a cluster goes: measured with real processes and real clients."""
