"""The broker between socket and log: the table of APIs, dispatch, sessions."""
