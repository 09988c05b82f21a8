"""Finds the cause of an error in the hundred lines that Spark writes about it. Pure."""

from __future__ import annotations

import re

# The last line of a Python traceback, wherever Spark has put it: an exception's name and text.
_PYTHON_ERROR = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Failed|Refused|Interrupt)\b.*$", re.MULTILINE)
_CLASS = re.compile(r"^(?:pyspark\.errors\.exceptions\.\w+\.\w+: (?=\[)|penstock\.[\w.]+: )")
_SQL_STATE = re.compile(r"\s*SQLSTATE: \w+;?|;? line \d+ pos \d+;?")
_SPARK_ERROR = re.compile(r"\[[A-Z][A-Z0-9_.]{5,}\][^\n]*")


def first_cause(text: str) -> str:
    """The line with the cause; the others name places."""
    if python_errors := _PYTHON_ERROR.findall(text):
        plain = [line for line in python_errors if not line.startswith(("py4j.", "org.apache.", "java."))]
        if plain:
            return _trimmed(plain[-1])
    spark_errors = _SPARK_ERROR.findall(text)
    return _trimmed(spark_errors[-1] if spark_errors else text.strip().split("\n", 1)[0])


def _trimmed(line: str) -> str:
    """Without the class that PySpark has for a condition of Spark's, or that we have for an error whose text is enough,
    and without the condition's number and its place in a text that the user never sees."""
    return _SQL_STATE.sub("", _CLASS.sub("", line)).strip()
