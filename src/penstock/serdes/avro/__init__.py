"""Avro: values in Avro's JSON encoding, and its binary encoding.

Written and read by functions that are made once for each type of a schema. fastavro does not say which branch of a
union it has read, and JSON has to: `{"string": "x"}`. A pass before or behind it would cost more than all does here.
"""
