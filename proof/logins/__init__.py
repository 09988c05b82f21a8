"""Clients before their login: mutated, half finished, and over at last."""
