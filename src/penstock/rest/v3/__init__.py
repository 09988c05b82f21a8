"""v3 of the REST proxy: administration, and records that stream in while their answers stream out."""
