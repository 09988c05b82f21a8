"""Quotas in a broker: counts the use of each client and throttles clients that exceed their quota."""
