"""Text for people: counts, sizes, and foreign text without a terminal's control sequences."""
