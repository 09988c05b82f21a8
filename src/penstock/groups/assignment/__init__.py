"""Server-side assignors: they assign partitions to members."""
