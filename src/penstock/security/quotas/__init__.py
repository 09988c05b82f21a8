"""Quotas of clients as pure arithmetic: rates over windows, token buckets, and which quota holds for whom."""
