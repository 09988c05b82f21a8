"""The state of a log beside its records (producers, transactions, leader epochs), and the log's contents as a whole."""
