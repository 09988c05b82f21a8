"""Topics as tables: what their columns are, and how tasks read them."""
