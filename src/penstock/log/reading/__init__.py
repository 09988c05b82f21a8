"""What a log tells its readers, and the check of bytes that this process has not written itself."""
