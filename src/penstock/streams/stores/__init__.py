"""State that can be asked for: changelogs of an application, read into SQLite, and answers over HTTP. No Spark."""
