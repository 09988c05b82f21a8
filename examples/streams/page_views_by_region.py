"""Page views per region and minute: each view is joined with the table of users as it is when the view comes.

    penstock topics create page-views
    penstock topics create users
    penstock streams run examples/streams/page_views_by_region.py

Keys of both topics are users. A user who moves counts for the new region from then on. A view by a user whom the table
does not have counts for the region 'unknown'.
"""

from __future__ import annotations

from penstock.streams import Streams, json, tumbling

app = Streams("page-views-by-region")
views = app.stream("page-views", value=json("page string, at timestamp"), time="at", grace="10 seconds")
users = app.table("users", value=json("region string"))
(
    views.join(users, how="left", name="views-with-region")
    .map(region="coalesce(region, 'unknown')")
    .group_by("region")
    .windowed(tumbling("1 minute"))
    .count(into="views", name="views-by-region")
    .to("views-by-region")
)
