from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import generate_messages


def test_nothing_is_stale_when_the_modules_are_as_they_would_be_written() -> None:
    assert generate_messages.stale_files(generate_messages.render_package(generate_messages.read_definitions())) == []


def test_module_is_named_when_it_differs_is_missing_or_should_not_be_there() -> None:
    files = generate_messages.render_package(generate_messages.read_definitions())
    files["fetch.py"] += "# edited by hand\n"
    files["new_api.py"] = ""
    del files["produce.py"]
    assert generate_messages.stale_files(files) == ["fetch.py", "new_api.py", "produce.py"]


def test_definitions_are_of_the_wanted_messages_when_they_are_read() -> None:
    names = {name.replace("Response", "Request") for name in generate_messages.read_definitions()}
    assert names == generate_messages.WANTED


def test_definitions_are_the_same_when_they_are_written_and_read_again() -> None:
    definitions = generate_messages.read_definitions()
    assert generate_messages.render_definitions(definitions) == generate_messages.DEFINITIONS.read_text()


def test_nothing_is_written_when_the_jars_lack_a_wanted_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = generate_messages.DEFINITIONS.read_text()
    with zipfile.ZipFile(tmp_path / "some.jar", "w"):
        pass
    with pytest.raises(SystemExit):
        generate_messages.main(["--check", "--from", str(tmp_path / "some.jar")])
    assert "no jar of those given defines AddOffsetsToTxnRequest, " in capsys.readouterr().err
    assert generate_messages.DEFINITIONS.read_text() == before
