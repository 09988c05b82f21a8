"""`penstock sql`: questions over topics, once or in a shell."""
