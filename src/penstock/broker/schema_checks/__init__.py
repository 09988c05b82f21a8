"""Records of topics that ask for it are checked against a schema registry before they are appended."""
