"""Avro: values in Avro's JSON encoding, and its binary encoding.

Functions that are made once for each type of a schema write and read the values. fastavro does not report the branch of
a union that it has read, and Avro's JSON encoding needs the branch: `{"string": "x"}`. A pass before or behind fastavro
would cost more than the whole encoding costs here.
"""
