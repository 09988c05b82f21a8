"""The health of a cluster by its brokers' answers: observations, findings, and brokers that are safe to restart."""
