"""The process of the log cleaner: its orders and answers, its start and its end."""
