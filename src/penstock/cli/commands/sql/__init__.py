"""`penstock sql`: queries over topics, once or in a shell."""
