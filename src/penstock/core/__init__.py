"""The words every layer shares: types, time, limits, settings, counters, log lines."""
