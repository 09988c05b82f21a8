"""`penstock schemas`: what a schema registry has, and what goes there."""
