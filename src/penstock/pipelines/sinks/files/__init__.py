"""Files of a batch, exactly once, in directories and object stores."""
