"""Transaction coordinator as a sans-I/O state machine: operations return what should happen, memory follows the log
by replay.
"""
