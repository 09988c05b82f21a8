"""The table of the stores' operations, and the document that describes them."""

from __future__ import annotations

import json
import re

from penstock.http.openapi import make_document
from penstock.streams.stores.parameters import GET_NAMES, KEY_NAMES, WINDOW_NAMES
from penstock.streams.stores.routes import DESCRIPTION, OPERATIONS
from penstock.streams.stores.shapes import SHAPES


def test_document_has_every_shape_that_it_refers_to_when_it_is_made() -> None:
    document = make_document(DESCRIPTION, OPERATIONS)
    named = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(document)))
    assert named == document["components"]["schemas"].keys() == SHAPES.keys()


def test_parameters_that_are_checked_are_those_that_are_described() -> None:
    described = {each.name: tuple(parameter.name for parameter in each.query) for each in OPERATIONS}
    assert described == {
        "listStores": (),
        "getStore": GET_NAMES,
        "getRows": KEY_NAMES,
        "getRowsOfKeys": (),
        "getRow": GET_NAMES,
        "getAllWindows": WINDOW_NAMES,
        "getWindows": WINDOW_NAMES,
    }
