"""What is compared of the HTTP services, and what is aimed at."""

from __future__ import annotations

from bench.rows import Row


def _secured(key: str, title: str, unit: str) -> Row:
    """With TLS and a password, without a goal."""
    return Row(f"{key}-secured", f"{title}, with TLS and a password", unit)


HTTP_ROWS = (
    Row("get", "registry: schemas by id", "1/s", ratio_at_least=2),
    Row("get-share", "that, of an empty GET through the same stack", "%", value_at_least=70),
    Row("get-p99", "that: p99", "ms", decimals=2, value_at_most=5),
    Row("register", "registry: new schemas registered", "1/s", ratio_at_least=2),
    Row("register-p99", "that: p99", "ms", decimals=2),
    Row("start", "registry: start until the first answer", "s", decimals=3, value_at_most=1),
    Row("memory", "registry: resident memory after the start", "MB", value_at_most=80),
    Row("single", "REST proxy: produce requests with one record", "1/s"),
    Row("single-p99", "that: p99", "ms", decimals=2),
    Row("single-share", "that, of an empty POST through the same stack", "%", value_at_least=50),
    Row("batch", "REST proxy: records in requests of 1,000", "1/s"),
    Row("batch-share", "that, of what confluent-kafka produces", "%", value_at_least=40),
    _secured("get", "registry: schemas by id", "1/s"),
    _secured("register", "registry: new schemas registered", "1/s"),
    _secured("single", "REST proxy: produce requests with one record", "1/s"),
    _secured("batch", "REST proxy: records in requests of 1,000", "1/s"),
)
