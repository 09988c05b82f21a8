"""Requests that only the controller can serve: a broker forwards them to the controller with the client's name."""
