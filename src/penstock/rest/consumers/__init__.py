"""Consumer instances: group members that live in the proxy and serve HTTP requests."""
