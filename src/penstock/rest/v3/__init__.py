"""Version 3 of the REST API: administration, and streams of records with streams of answers."""
