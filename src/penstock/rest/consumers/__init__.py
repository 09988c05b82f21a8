"""Consumer instances: members of groups that live in the proxy and are asked over HTTP."""
