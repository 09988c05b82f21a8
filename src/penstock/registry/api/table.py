"""All operations of the API. Routes, the OpenAPI document and docs/reference/registry-api.md follow from this table.

A right stands for the subject that the path names. An operation that names none hides what its caller may not read.
"""

from __future__ import annotations

from penstock.registry.api.endpoints import compatibility, others, schemas, settings, subjects
from penstock.registry.api.operation import Operation

OPERATIONS: tuple[Operation, ...] = (
    *subjects.OPERATIONS,
    *schemas.OPERATIONS,
    *settings.OPERATIONS,
    *compatibility.OPERATIONS,
    *others.OPERATIONS,
)
