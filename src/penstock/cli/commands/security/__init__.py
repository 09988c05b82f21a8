"""Commands about who may connect."""
