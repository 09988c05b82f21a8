"""The small registry that tests of applications have, too."""

from __future__ import annotations

from penstock.streams.topology_test.registry import CUT_OFF, FakeRegistry, RefusedError, running_registry

__all__ = ["CUT_OFF", "FakeRegistry", "RefusedError", "running_registry"]
