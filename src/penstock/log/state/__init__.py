"""What a partition knows beside its records: producers, transactions, leader epochs."""
