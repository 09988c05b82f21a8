"""Requests that only the controller can serve, passed on to the controller with the client's name."""
