"""Streams and tables of topics in Python, run by Spark. Importing this costs nothing of Spark; running does."""
