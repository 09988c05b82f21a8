"""Rows and their mark in one SQL transaction."""
