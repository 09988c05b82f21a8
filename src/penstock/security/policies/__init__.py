"""Policies on tags: what is allowed and denied on topics that bear a tag, from when until when, and from where."""
