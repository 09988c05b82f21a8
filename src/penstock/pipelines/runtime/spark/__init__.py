"""Spark as a child process: its JVM, the session in it, and the signals that end both."""
