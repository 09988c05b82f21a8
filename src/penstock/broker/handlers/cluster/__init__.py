"""The cluster as a whole: leaders, replicas and features, as the controller decides about them."""
