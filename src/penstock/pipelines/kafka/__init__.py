"""How pipelines speak to brokers: client settings, group offsets, patience."""
