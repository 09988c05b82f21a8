"""The operations of the API, a class for each family: parsing in threads, decisions on the loop, writes in turn."""
