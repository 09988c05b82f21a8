"""Plans a topology as Spark queries, draws the plan, and recognises a changed plan. Pure."""
