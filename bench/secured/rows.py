"""What is compared of security, and what is aimed at."""

from __future__ import annotations

from bench.rows import Row
from bench.secured.sender import HANDSHAKES, HELLOS

_WHAT = {"produce": "produce 1 KiB, acks=all", "consume": "consume 1 KiB"}
_FLOODS = {
    HANDSHAKES: "one record at a time beside a flood of handshakes",
    HELLOS: "one record at a time beside a flood of first messages that hang up",
}


def _throughput(key: str, title: str) -> tuple[Row, ...]:
    return (
        Row(f"plain-{key}", f"{title}: plain", "MB/s"),
        Row(f"tls-{key}", f"{title}: TLS", "MB/s", ratio_at_least=1),
        Row(f"tls-{key}-share", "TLS, of what it is plain", "%", value_at_least=40),
        Row(f"plain-{key}.cpu", "broker CPU for that: plain", "s", decimals=2),
        Row(f"tls-{key}.cpu", "broker CPU for that: TLS", "s", decimals=2),
    )


def _flood(form: str, title: str) -> tuple[Row, ...]:
    return (
        Row(f"{form}-times", f"{title}: p99, times that beside a closed port", "times", decimals=2, value_at_most=2),
        Row(f"{form}-alone-p99", "the same sender against a closed port: p99", "us"),
        Row(f"{form}-p99", "flooded: p99", "us"),
        Row(f"{form}-p50", "flooded: p50", "us"),
        Row(f"{form}-rate", "what the sender got done with a quarter of a core", "1/s"),
        Row(f"{form}-cores", "what the sender used", "cores", decimals=2),
    )


SECURED_ROWS = (
    *(row for key, title in _WHAT.items() for row in _throughput(key, title)),
    Row("plain-latency-p50", "one record at a time, acks=all: plain, p50", "us"),
    Row("plain-latency-p99", "the same: p99", "us"),
    Row("tls-latency-p50", "one record at a time, acks=all: TLS, p50", "us"),
    Row("tls-latency-p99", "the same: p99", "us"),
    Row("login-plain", "broker CPU for a connection: plain", "us"),
    Row("login-tls", "the same with a TLS handshake", "us"),
    Row("login-scram", "the same with a SCRAM login", "us"),
    Row("login-tls-scram", "the same with both", "us"),
    Row("acl-none", "broker CPU for a metadata request with 10,000 ACLs: of a super user", "us", decimals=1),
    Row("acl-kept", "the same of a user whose decision is kept", "us", decimals=1),
    Row("acl-fresh", "the same of a user whose decision is new", "us", decimals=1),
    Row("decision-kept", "a decision that is kept, in process", "us", decimals=2, value_at_most=1),
    Row("decision-fresh", "a new decision, in process", "us", decimals=1),
    *(row for form, title in _FLOODS.items() for row in _flood(form, title)),
)
