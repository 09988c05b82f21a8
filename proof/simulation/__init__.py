"""A broker, its disk, its clients and the network between them, in one thread and in virtual time, led by a seed."""
