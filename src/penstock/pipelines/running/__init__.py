"""From a pipeline to Spark queries and back to an exit code."""
