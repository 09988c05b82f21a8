"""Queryable state: reads the changelogs of an application into SQLite and answers over HTTP. No Spark."""
