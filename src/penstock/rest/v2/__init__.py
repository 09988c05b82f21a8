"""Version 2 of the API: topics, records, and consumers that live in the proxy."""
