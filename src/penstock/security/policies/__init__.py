"""Policies: what is allowed and denied on topics that bear a tag."""
