"""Histories of real clients."""
