"""Looking into the files of a data directory."""
