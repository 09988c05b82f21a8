"""What a partition knows beside its records (producers, transactions, leader epochs), and the log's contents as one."""
