"""Public names of a package that are imported when they are first used.

    if not TYPE_CHECKING:
        __getattr__, __dir__ = lazy_names(__name__, {"Broker": "penstock.embedded"})

- A type checker takes the names from imports below `if TYPE_CHECKING`. It must not see the `__getattr__`, or it takes
  any name for one that is there.
- `import penstock` runs this module, and many programs import the package for one name. So nothing is imported here
  before a name is used: `typing` alone takes longer than all the rest.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, str], needed_by: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the package. `modules` has the module of each name. An error about a missing extra
    names `needed_by`, or else the package and the name that was used.
    """

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        import importlib

        try:
            return getattr(importlib.import_module(modules[name]), name)
        except ModuleNotFoundError as error:
            from penstock.core.extras import explained

            raise explained(error, needed_by or f"{package}.{name}") from error

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return find, list_names
