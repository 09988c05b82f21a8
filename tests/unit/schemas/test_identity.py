"""The order of the bytes is Confluent's; the expected digests are computed from that order, byte by byte."""

from __future__ import annotations

import hashlib
import uuid

from penstock.schemas.identity import fingerprint, guid, md5_text
from penstock.schemas.schema import Metadata, Reference, Rule, RuleSet


def test_text_alone_is_hashed_as_it_is() -> None:
    expected = hashlib.md5(b'"string"')
    assert fingerprint('"string"') == expected.digest()
    assert guid(fingerprint('"string"')) == str(uuid.UUID(expected.hexdigest()))
    assert md5_text(fingerprint('"string"')) == "CV1xzxJVa51eMwrVdbPfXQ=="


def test_references_metadata_and_rules_are_hashed_in_confluents_order() -> None:
    metadata = Metadata.of(tags={"b": ["y", "x"], "a": ["z"]}, properties={"k": "v"}, sensitive=["k"])
    rule = Rule("n", "d", "TRANSFORM", "WRITE", "CEL", ("t",), (("p", "q"),), "e", "s", "f", disabled=True)
    rules = RuleSet(migration_rules=(Rule("m"),), domain_rules=(rule,), encoding_rules=(Rule("o"),), enable_at="x")
    found = fingerprint("{}", [Reference("r", "s", 258)], metadata, rules)
    content = b"{}" + b"rs\0\0\x01\x02" + b"\x01azbxykvk" + b"\x01mndTRANSFORMWRITECELtpqesf\x01ox"
    assert found == hashlib.md5(content).digest()


def test_empty_metadata_is_not_the_same_as_none() -> None:
    assert fingerprint("{}", (), Metadata()) != fingerprint("{}")
    assert fingerprint("{}", (), None, RuleSet()) == hashlib.md5(b"{}\x01").digest()
