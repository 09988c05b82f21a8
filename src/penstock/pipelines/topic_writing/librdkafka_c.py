"""The part of librdkafka's public C API (rdkafka.h) that the sink uses: types, constants, functions. 64-bit systems
only.

The library is the one that confluent_kafka has brought and loaded: symbols are looked for in its extension module and
in what that depends on.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p

import numpy as np
from confluent_kafka import cimpl

PRODUCER = 0  # rd_kafka_type_t
CONF_OK = 0
COPY = 0x2  # RD_KAFKA_MSG_F_COPY
PURGE_QUEUE, PURGE_IN_FLIGHT, PURGE_NON_BLOCKING = 0x1, 0x2, 0x4
# RD_KAFKA_VTYPE_*: what an argument of rd_kafka_produceva is.
TOPIC, PARTITION, VALUE, KEY, FLAGS, TIMESTAMP, HEADER = 1, 3, 4, 5, 7, 8, 9


class Message(ctypes.Structure):
    """rd_kafka_message_t"""

    _fields_ = (
        ("error", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("value", c_void_p),
        ("value_size", c_size_t),
        ("key", c_void_p),
        ("key_size", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    )


class TopicPartition(ctypes.Structure):
    """rd_kafka_topic_partition_t"""

    _fields_ = (
        ("topic", c_void_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("error", c_int),
        ("private", c_void_p),
    )


MESSAGE = np.dtype(Message)
# rd_kafka_vu_t: a kind and a union of 64 bytes, of which the first 24 are used: a number, or up to three words.
ARGUMENT = np.dtype(
    {
        "names": ["kind", "number", "first", "second", "third"],
        "formats": ["i4", "i4", "u8", "u8", "i8"],
        "offsets": [0, 8, 8, 16, 24],
        "itemsize": 72,
    }
)

DeliveryCallback = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Message), c_void_p)
LogCallback = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_char_p)

# Name without rd_kafka_ -> result, arguments. Handles are void pointers.
_FUNCTIONS: dict[str, tuple[object, tuple[object, ...]]] = {
    "conf_new": (c_void_p, ()),
    "conf_set": (c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
    "conf_set_dr_msg_cb": (None, (c_void_p, DeliveryCallback)),
    "conf_set_log_cb": (None, (c_void_p, LogCallback)),
    "conf_destroy": (None, (c_void_p,)),
    "new": (c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
    "name": (c_char_p, (c_void_p,)),
    "set_log_queue": (c_int, (c_void_p, c_void_p)),
    "destroy": (None, (c_void_p,)),
    "poll": (c_int, (c_void_p, c_int)),
    "flush": (c_int, (c_void_p, c_int)),
    "purge": (c_int, (c_void_p, c_int)),
    "outq_len": (c_int, (c_void_p,)),
    "fatal_error": (c_int, (c_void_p, c_char_p, c_size_t)),
    "topic_new": (c_void_p, (c_void_p, c_char_p, c_void_p)),
    "topic_name": (c_char_p, (c_void_p,)),
    "topic_destroy": (None, (c_void_p,)),
    "produce_batch": (c_int, (c_void_p, c_int32, c_int, c_void_p, c_int)),
    "produceva": (c_void_p, (c_void_p, c_void_p, c_size_t)),
    "message_produce_errstr": (c_char_p, (POINTER(Message),)),
    "error_code": (c_int, (c_void_p,)),
    "error_string": (c_char_p, (c_void_p,)),
    "error_is_fatal": (c_int, (c_void_p,)),
    "error_is_retriable": (c_int, (c_void_p,)),
    "error_txn_requires_abort": (c_int, (c_void_p,)),
    "error_destroy": (None, (c_void_p,)),
    "init_transactions": (c_void_p, (c_void_p, c_int)),
    "begin_transaction": (c_void_p, (c_void_p,)),
    "send_offsets_to_transaction": (c_void_p, (c_void_p, c_void_p, c_void_p, c_int)),
    "commit_transaction": (c_void_p, (c_void_p, c_int)),
    "abort_transaction": (c_void_p, (c_void_p, c_int)),
    "consumer_group_metadata_new": (c_void_p, (c_char_p,)),
    "consumer_group_metadata_destroy": (None, (c_void_p,)),
    "topic_partition_list_new": (c_void_p, (c_int,)),
    "topic_partition_list_add": (POINTER(TopicPartition), (c_void_p, c_char_p, c_int32)),
    "topic_partition_list_destroy": (None, (c_void_p,)),
}


def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(cimpl.__file__)
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
    return library


library = _load()


def c_string(text: str) -> bytes:
    """C would take what is before a null character for the whole."""
    if "\0" in text:
        raise ValueError(f"{text[:100]!r} holds a null character")
    return text.encode()
