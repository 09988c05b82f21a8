"""The bytes of keys and values as columns of Spark, and back."""
