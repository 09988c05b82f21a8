from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.access.schema_files import read_schema
from penstock.cli.errors import UsageError


def test_missing_file_is_named_when_it_says_no_type_either(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*: No such file"):
        read_schema(tmp_path / "nofile", None)


def test_type_is_asked_for_when_the_name_of_a_file_says_none(tmp_path: Path) -> None:
    file = tmp_path / "schema"
    file.write_text("{}")
    with pytest.raises(UsageError, match="which type"):
        read_schema(file, None)
    with pytest.raises(UsageError, match="which type"):
        read_schema(Path("-"), None)
