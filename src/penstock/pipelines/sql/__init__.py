"""SQL over topics: questions, statements, and what they need of the tables."""
