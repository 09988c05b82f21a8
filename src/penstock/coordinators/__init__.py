"""Code that the group coordinator and the transaction coordinator share. No I/O."""
