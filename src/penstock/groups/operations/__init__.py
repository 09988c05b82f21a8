"""What clients ask of groups, one module per theme."""
