"""Where in the files an offset or a timestamp stands."""
