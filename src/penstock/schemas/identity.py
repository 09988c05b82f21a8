"""The identity of a schema: the MD5 that `_schemas` keeps, and the same 16 bytes as a guid.

Equal text, references, metadata and rules are the same schema, in whatever subject. The order of the bytes is
Confluent's, so that either registry finds what the other has written.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Iterable, Iterator
from uuid import UUID

from penstock.schemas.schema import Metadata, Reference, Rule, RuleSet


def fingerprint(
    text: str | None,
    references: Iterable[Reference] = (),
    metadata: Metadata | None = None,
    rule_set: RuleSet | None = None,
) -> bytes:
    """16 bytes over the canonical text, references, metadata and rules."""
    # Not for secrecy: it is the key that Confluent's registry stores.
    digest = hashlib.md5(usedforsecurity=False)
    for part in _parts(text, references, metadata, rule_set):
        digest.update(part)
    return digest.digest()


def md5_text(md5: bytes) -> str:
    """Base64, as in the records of `_schemas`."""
    return base64.b64encode(md5).decode()


def guid(md5: bytes) -> str:
    return str(UUID(bytes=md5))


def _parts(
    text: str | None, references: Iterable[Reference], metadata: Metadata | None, rule_set: RuleSet | None
) -> Iterator[bytes]:
    yield (text or "").encode()
    for reference in references:
        yield reference.name.encode()
        yield reference.subject.encode()
        yield struct.pack(">i", reference.version)
    # The byte tells empty from absent.
    if metadata is not None:
        yield b"\x01"
        yield from _metadata_parts(metadata)
    if rule_set is not None:
        yield b"\x01"
        for rule in (*rule_set.migration_rules, *rule_set.domain_rules, *rule_set.encoding_rules):
            yield from _rule_parts(rule)
        yield (rule_set.enable_at or "").encode()


def _metadata_parts(metadata: Metadata) -> Iterator[bytes]:
    for path, tags in metadata.tags:
        yield path.encode()
        yield from (tag.encode() for tag in tags)
    for name, value in metadata.properties:
        yield name.encode()
        yield value.encode()
    yield from (name.encode() for name in metadata.sensitive)


def _rule_parts(rule: Rule) -> Iterator[bytes]:
    for text in (rule.name, rule.doc, rule.kind, rule.mode, rule.type):
        yield (text or "").encode()
    yield from (tag.encode() for tag in sorted(rule.tags))
    for name, value in sorted(rule.params):
        yield name.encode()
        yield value.encode()
    for text in (rule.expr, rule.on_success, rule.on_failure):
        yield (text or "").encode()
    yield b"\x01" if rule.disabled else b""
