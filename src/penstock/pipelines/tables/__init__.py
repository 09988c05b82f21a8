"""Topics as tables: their columns, and their reads by Spark's tasks."""
