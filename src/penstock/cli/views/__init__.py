"""What commands show: rows and documents. Pure."""
