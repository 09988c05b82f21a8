"""Writes the files of a batch exactly once, to directories and object stores."""
