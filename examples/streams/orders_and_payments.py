"""Orders that were paid within an hour, and those that were not.

    penstock topics create orders
    penstock topics create payments
    penstock streams run examples/streams/orders_and_payments.py

Keys of both topics are order numbers. That an order was not paid is known when an hour and the grace have passed in
both topics: a stream's time moves with its records.
"""

from __future__ import annotations

from penstock.streams import Streams, json, within

app = Streams("orders-and-payments")
orders = app.stream("orders", value=json("item string, price double, at timestamp"), time="at", grace="5 minutes")
payments = app.stream("payments", value=json("amount double, at timestamp"), time="at", grace="5 minutes")
joined = orders.join(payments, how="left", window=within("1 hour", before="0 seconds"), name="paid-in-time")
parts = joined.split(paid="amount IS NOT NULL", rest="unpaid")
parts["paid"].select("item", "amount", "at_right AS paid_at").to("paid-orders")
parts["unpaid"].select("item", "price").to("unpaid-orders")
