"""The registry as a process among others: its topic read and written, a leader elected, writes forwarded to it."""
