"""The extras of the package: the modules of each, and the extra that each command or public name needs.

Code that misses a module raises the error of this table, one sentence with the command that installs the module. A
look for a module imports nothing.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

_JAVA = "Java 17 or newer is needed, too."
_FORMATS = ("fastavro", "jsonschema_rs", "msgspec", "google.protobuf", "google.type")
_SPARK = ("pyspark", "fastavro", "msgspec", "numpy", "pandas", "google.protobuf", "pyarrow", "sqlalchemy")


class Extra(NamedTuple):
    modules: tuple[str, ...]  # one for each distribution that the extra names; `require` names the first one missing
    besides: str = ""  # what pip does not install


# Where several extras bring a module, the error names the first of them, unless the table below names another.
EXTRAS = {
    "zookeeper": Extra(("kazoo",)),
    "registry": Extra(_FORMATS),
    "rest": Extra(_FORMATS),
    "spark": Extra(_SPARK, _JAVA),
    "cluster": Extra(("kazoo", "pyspark"), _JAVA),
    "streams": Extra((*_SPARK, *_FORMATS), _JAVA),
    "sql": Extra((*_SPARK, *_FORMATS, "prompt_toolkit"), _JAVA),
    "gssapi": Extra(("gssapi",), "A compiler and Kerberos' headers are needed to build it."),
    "databases": Extra(("psycopg", "pymysql", "redis")),
}

# By the name that a user knows. Of two names that fit a command, the longer one holds.
NEEDS = {
    "penstock cluster start": "cluster",
    "penstock cluster adopt": "zookeeper",
    "penstock cluster snapshot": "zookeeper",
    "penstock cluster restore": "zookeeper",
    "penstock zookeeper start": "cluster",
    "penstock registry start": "registry",
    "penstock rest start": "rest",
    "penstock pipeline": "spark",
    "penstock streams": "streams",
    "penstock streams serve": "registry",
    "penstock streams query": "registry",
    "penstock sql": "sql",
    "penstock.Registry": "registry",
    "penstock.AsyncRegistry": "registry",
    "penstock.Cluster": "cluster",
    "penstock.pipelines": "spark",
    "penstock.pipelines.sql": "sql",
    "penstock.streams": "streams",
}


class MissingExtraError(ModuleNotFoundError):
    """`name` is the module that is missing."""


def require(extra: str, needed_by: str) -> None:
    """Raises MissingExtraError where a module of the extra is not installed."""
    for module in EXTRAS[extra].modules:
        if not is_installed(module):
            raise explained(ModuleNotFoundError(name=module), needed_by)


def is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # a package above it is missing, or was replaced by something else
        return False


def explained(error: ModuleNotFoundError, needed_by: str) -> ModuleNotFoundError:
    """The error with the sentence, where an extra brings the module; else the same error."""
    module = error.name or ""
    extra = _extra_for(module, needed_by)
    if extra is None:
        return error
    words, besides = module.split("."), EXTRAS[extra].besides
    missing = ".".join(words[:2] if words[0] == "google" else words[:1])  # several distributions share that name
    text = f"{needed_by} needs {missing}, which is not installed: {pip_command(extra)}"
    return MissingExtraError(f"{text}. {besides}" if besides else text, name=module)


def pip_command(extra: str) -> str:
    return f"pip install 'penstock[{extra}]'"


def _extra_for(module: str, needed_by: str) -> str | None:
    bringing = [name for name, extra in EXTRAS.items() if any(_is_of(module, each) for each in extra.modules)]
    fitting = [name for name in NEEDS if f"{needed_by} ".startswith(f"{name} ")]
    asked = NEEDS[max(fitting, key=len)] if fitting else None
    return asked if asked in bringing else next(iter(bringing), None)


def _is_of(module: str, brought: str) -> bool:
    """`py4j` comes with pyspark, and `google` with protobuf."""
    return module.partition(".")[0] == brought.partition(".")[0] or (module.startswith("py4j") and brought == "pyspark")
