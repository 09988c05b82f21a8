"""What is compared of administration, and what is aimed at."""

from __future__ import annotations

from bench.rows import Row

ADMIN_ROWS = (
    Row("picture", "a picture of the cluster, with connecting", "s", decimals=2),
    Row("picture-requests", "requests for that", "requests", value_at_most=40),
    Row("picture.cpu", "broker CPU for that", "s", decimals=2),
    Row("picture-again", "a picture over connections that are open", "s", decimals=2),
    Row("picture-bare", "the same requests over one connection, without the picture", "s", decimals=2),
    Row("picture-times", "how many times as long the picture takes", "times", decimals=2, value_at_most=1.3),
    Row("picture-again.cpu", "CPU of client and broker for the picture", "s", decimals=2),
    Row("picture-bare.cpu", "the same for the requests alone", "s", decimals=2),
    Row("picture-cpu-times", "how many times as much that is", "times", decimals=2),
    Row("tools", "Kafka's tools for the same, without their starts", "s", decimals=1),
    Row("tools-requests", "requests for that", "requests"),
    Row("tools.cpu", "broker CPU for that", "s", decimals=2),
)
