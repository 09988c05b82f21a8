"""Writes docs/reference/apis.md from the API table; `--check` fails when the page is stale."""

from __future__ import annotations

import sys
from pathlib import Path

from generated_page import write_or_check
from penstock.broker.apis import APIS
from penstock.protocol.codec import MAX_REQUEST_ELEMENTS

PAGE = Path(__file__).parent.parent / "docs/reference/apis.md"
HEAD = f"""# Served APIs

Written by tools/generate_api_docs.py from the table in `broker/apis.py`. Versions are Kafka 4.3's; nothing is
advertised that is not served, but for Produce, whose versions 0 to 2 are advertised for the sake of older librdkafka
and refused.

The arrays of a request may have {MAX_REQUEST_ELEMENTS:,} elements together (`MAX_REQUEST_ELEMENTS` in
`protocol/codec.py`). A request with more is not answered: the broker logs the limit and closes the connection. Clients
split such requests.

| key | API | versions | advertised | flexible from |
|---|---|---|---|---|
"""


def render() -> str:
    rows = []
    for key, api in sorted(APIS.items()):
        first = api.request.FLEXIBLE_FROM
        flexible = "-" if first > api.max_version else first
        rows.append(
            f"| {key} | {api.name} | {api.min_version} to {api.max_version} "
            f"| {api.advertised_min} to {api.max_version} | {flexible} |\n"
        )
    return HEAD + "".join(rows)


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, render()))
