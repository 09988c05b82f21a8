"""Client quotas as pure arithmetic: rates over windows, token buckets, and the choice of the quota for a client."""
