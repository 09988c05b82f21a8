"""Policies: they allow and deny operations on topics that bear a tag."""
