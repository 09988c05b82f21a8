"""Commands that write records to topics and read records from topics."""
