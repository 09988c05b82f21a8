"""SASL logins on a connection: the APIs served before a login, its exchange of tokens, and its lifetime."""
