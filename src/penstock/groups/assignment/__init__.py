"""Server-side assignors: which member gets which partition."""
