"""What somebody writes into the store past the brokers: found, told, and put right where it is a node of ours."""
