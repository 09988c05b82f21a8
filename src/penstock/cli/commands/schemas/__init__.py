"""`penstock schemas`: shows and changes the content of a schema registry."""
