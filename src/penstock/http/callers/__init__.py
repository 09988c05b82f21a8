"""Callers of a service before the brokers: their credentials are passed on, their clients kept apart."""
