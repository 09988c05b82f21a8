"""Version 2 of the REST API: topics, records, and consumers in the proxy."""
