"""The services of the API, a class per family: parsing in threads, decisions on the loop, writes one after another."""
