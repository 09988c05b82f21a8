"""Commands about security, one module each."""
