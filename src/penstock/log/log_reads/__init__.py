"""Reads from a log, and the check of bytes that other programs have written."""
