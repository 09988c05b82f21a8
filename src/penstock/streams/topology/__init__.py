"""What an application is made of, and how one is put together. Pure: no Spark, no broker."""
