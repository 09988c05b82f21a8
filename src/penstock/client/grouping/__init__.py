"""What a member of a classic group asks its coordinator."""
