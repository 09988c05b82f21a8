"""Writes docs/reference/apis.md from the API table; `--check` fails when the page is stale."""

from __future__ import annotations

import sys
from pathlib import Path

from generated_page import write_or_check
from penstock.broker.apis import APIS
from penstock.broker.dispatch import Api
from penstock.protocol.codec import MAX_REQUEST_ELEMENTS
from penstock.protocol.message import Message
from penstock.security.acls.rights import RIGHTS, Form

PAGE = Path(__file__).parent.parent / "docs/reference/apis.md"
HEAD = f"""# Served APIs

Written by tools/generate_api_docs.py from the table in `broker/apis.py`. Versions are Kafka 4.3's; nothing is
advertised that is not served, but for Produce, whose versions 0 to 2 are advertised for the sake of older librdkafka
and refused.

The arrays of a request may have {MAX_REQUEST_ELEMENTS:,} elements together (`MAX_REQUEST_ELEMENTS` in
`protocol/codec.py`). A request with more is not answered: the broker logs the limit and closes the connection. Clients
split such requests.

In a cluster, APIs marked *controller* are carried out by the controller. Every broker takes them and passes them on.
APIs marked *brokers* are what brokers ask of each other: they are served and advertised on the inter-broker listener of
a cluster alone.

| key | API | versions | advertised | flexible from | for |
|---|---|---|---|---|---|
"""
RIGHTS_HEAD = """
## Rights

What a client needs where an authorizer is configured, from the table in `security/acls/rights.py`. `&`: all of these,
asked for in this order. A client that lacks the first one gets the error; one that lacks another gets that of its
resource. *left out*: what the client may not see is not in the answer. `AnyTopic`: some topic or other (KIP-679).

| API | form | needs | without |
|---|---|---|---|
"""


def render() -> str:
    rows = []
    for key, api in sorted(APIS.items()):
        first = api.request.FLEXIBLE_FROM
        flexible = "-" if first > api.max_version else first
        rows.append(
            f"| {key} | {api.name} | {api.min_version} to {api.max_version} "
            f"| {api.advertised_min} to {api.max_version} | {flexible} | {_audience(api)} |\n"
        )
    return HEAD + "".join(rows) + RIGHTS_HEAD + "".join(_rights(key) for key in sorted(APIS))


def _rights(key: int) -> str:
    return "".join(
        f"| {APIS[key].name} | {form.words} | {form.needs.replace('|', 'or') or '-'} | {_refusal(form)} |\n"
        for form in RIGHTS[key]
    )


def _refusal(form: Form) -> str:
    words = [] if form.refusal is None else [f"{form.refusal.value} {form.refusal.name}"]
    return ", ".join([*words, "left out"] if form.hides else words) or "-"


def _audience(api: Api[Message]) -> str:
    return "brokers" if api.is_for_brokers else "controller" if api.is_forwarded else ""


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, render()))
