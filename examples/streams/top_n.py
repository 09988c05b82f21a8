"""The three pages that were seen most in each minute.

    penstock topics create page-views
    penstock streams run examples/streams/top_n.py

Two steps: views per page and minute, and of those counts the largest ones per minute. The second step groups a table:
when a count changes, the old one is taken out of the minute's list before the new one is put in.
"""

from __future__ import annotations

from penstock.streams import Streams, json, tumbling

N = 3

app = Streams("top-pages")
views = app.stream("page-views", value=json("page string, at timestamp"), time="at", grace="10 seconds")
counts = views.group_by("page").windowed(tumbling("1 minute")).count(into="views", name="views-by-page")
minutes = counts.group_by(minute="window_start").aggregate(all="collect_list(struct(views, page))", name="pages")
minutes.select("minute", f"transform(slice(reverse(array_sort(all)), 1, {N}), one -> one.page) AS top").to("top-pages")
