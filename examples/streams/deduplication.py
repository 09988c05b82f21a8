"""Each payment once, though its sender tries again.

    penstock topics create payment-attempts
    penstock streams run examples/streams/deduplication.py

Of the attempts with the same id the first one within an hour goes on. Ids are forgotten after that, so that the state
does not grow with the topic.
"""

from __future__ import annotations

from penstock.streams import Streams, json

app = Streams("payments-once")
attempts = app.stream("payment-attempts", value=json("id string, amount double, at timestamp"), time="at")
attempts.deduplicate("id", within="1 hour", name="first-attempts").to("payments")
