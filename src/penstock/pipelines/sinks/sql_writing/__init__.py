"""Writes rows and the batch's mark in one SQL transaction."""
