"""Logins on a connection (SASL): what is served before, how a login goes, and how long it lasts."""
