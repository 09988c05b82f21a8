"""Visits: clicks of a user with less than half an hour between them.

    penstock topics create clicks
    penstock streams run examples/streams/sessions.py

A visit is written once, when it is over: its last click is half an hour and the grace behind the newest one.
"""

from __future__ import annotations

from penstock.streams import Streams, json, session

app = Streams("visits")
clicks = app.stream("clicks", value=json("page string, at timestamp"), time="at")
(
    clicks.group_by_key()
    .windowed(session("30 minutes", grace="1 minute"))
    .aggregate(clicks="count(*)", pages="array_sort(collect_set(page))", name="visits")
    .to("visits")
)
