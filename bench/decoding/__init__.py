"""Payloads by schema to columns, in one process, beside the usual way: a library reads record by record."""
