"""Orders with the names of their customers, kept up to date when either changes.

    penstock topics create orders
    penstock topics create customers
    penstock streams run examples/streams/customers_of_orders.py

Orders are keyed by their number, customers by theirs; an order says which customer it belongs to. When a customer is
renamed, all of the orders of this customer are written again. When an order is deleted, so is its row.
"""

from __future__ import annotations

from penstock.streams import Streams, json

app = Streams("customers-of-orders")
orders = app.table("orders", value=json("customer string, item string"))
customers = app.table("customers", value=json("name string, city string"))
orders.join(customers, on="customer", name="orders-with-customers").to("orders-with-customers")
