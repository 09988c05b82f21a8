"""What a log tells its readers, and the check of bytes that others have written."""
