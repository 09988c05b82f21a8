"""Sockets: listeners, connections, frames, limits."""
