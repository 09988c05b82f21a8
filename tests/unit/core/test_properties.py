from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.config.types import ConfigError
from penstock.core.limits import MAX_PROPERTIES_FILE_BYTES
from penstock.core.properties import parse_properties, read_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb = 2\n", {"a": "1", "b": "2"}),
        ("a:1\nb : 2", {"a": "1", "b": "2"}),
        ("a 1\nb\t2", {"a": "1", "b": "2"}),
        ("# comment\n! other\n  # third\n\n \t\na=1", {"a": "1"}),
        ("a=b=c:d e", {"a": "b=c:d e"}),
        ("key", {"key": ""}),
        ("key=", {"key": ""}),
        ("=value", {"": "value"}),
        ("  a  =  trailing kept  ", {"a": "trailing kept  "}),
        ("a=1\na=2", {"a": "2"}),
        ("a=one,\\\n    two,\\\n\tthree", {"a": "one,two,three"}),
        ("a=ends\\\n", {"a": "ends"}),
        ("a=x\\\\\nb=2", {"a": "x\\", "b": "2"}),
        ("a=1\\\n# not a comment", {"a": "1# not a comment"}),
        ("a\\=b=c\\:d", {"a=b": "c:d"}),
        ("a\\ b=c", {"a b": "c"}),
        ("a=\\u00e9\\t\\n\\q", {"a": "é\t\nq"}),
        ("path=C:\\\\data", {"path": "C:\\data"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=\\", {"a": ""}),
        ("", {}),
    ],
)
def test_properties_are_read_as_java_reads_them_when_well_formed(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_line_is_named_when_an_escape_is_broken() -> None:
    with pytest.raises(ValueError, match=r"line 2: .*four hexadecimal digits"):
        parse_properties("a=1\nb=\\u00g0")


def test_file_is_read_when_it_begins_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(b"\xef\xbb\xbfnode.id=3\n")
    assert read_properties(path) == {"node.id": "3"}


def test_file_is_refused_with_its_name_when_it_cannot_be_understood(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    with pytest.raises(ConfigError, match=r"cannot read .*server\.properties: No such file"):
        read_properties(path)
    path.write_bytes(b"a=\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_properties(path)
    path.write_bytes(b"a=\\u12")
    with pytest.raises(ConfigError, match=r"server\.properties: line 1"):
        read_properties(path)
    path.write_bytes(b"#" * (MAX_PROPERTIES_FILE_BYTES + 1))
    with pytest.raises(ConfigError, match="larger than"):
        read_properties(path)
