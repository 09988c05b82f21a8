"""What counts as a block, a note and a result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guides.blocks import Kind, UnknownNoteError, find_section, read_blocks
from tests.guides.judging import problems_of
from tests.guides.running import run_guide, runs_here

PAGE = """# A page

## First
<!-- first:
echo before
-->
<!-- exit code 3: the broker is away -->
```sh
penstock topics list
```
words
<!-- run in interop: Spark -->
```python
# hello.py
print("hello")
```
## Second
```sh
echo there
```
"""


def block(language: str, text: str, note: str = "") -> str:
    return f"{note}\n```{language}\n{text}\n```\n" if note else f"```{language}\n{text}\n```\n"


def test_blocks_have_their_notes_when_a_page_is_read() -> None:
    listed, hello, there = read_blocks(PAGE)
    assert (listed.first, listed.exit_code, listed.line, listed.reasons) == ("echo before", 3, 9, {})
    assert (hello.language, hello.file_name) == ("python", "hello.py")
    assert hello.reasons == {Kind.INTEROP: "Spark"}
    assert [runs_here(each, is_interop=False) for each in (listed, hello, there)] == [True, False, True]
    assert [runs_here(each, is_interop=True) for each in (listed, hello, there)] == [True, True, True]
    assert [each.text for each in read_blocks(find_section(PAGE, "Second"))] == ["echo there\n"]


def test_a_note_below_the_title_counts_for_all_blocks_without_one() -> None:
    first, second = read_blocks(
        "# Title\n\n<!-- run in interop: Spark -->\n\n"
        + block("sh", "true")
        + block("sh", "true", "<!-- not run: asks a person -->")
    )
    assert first.reasons == {Kind.INTEROP: "Spark"}
    assert second.reasons == {Kind.NOT_RUN: "asks a person"}


@pytest.mark.parametrize(
    "note", ["<!-- skipped: later -->", "<!-- not run: -->", "<!-- TODO -->", "<!-- exit code: 1 -->"]
)
def test_a_page_is_refused_when_a_note_is_of_no_known_kind(note: str) -> None:
    with pytest.raises(UnknownNoteError):
        read_blocks(block("sh", "true", note))


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        (block("", "penstock topics list"), "no language"),
        (block("yaml", "a: 1"), "yaml"),
        (block("properties", "lisseners=PLAINTEXT://:9092"), "lisseners"),
        (block("sh", "true", "<!-- run by: tests/test_nothing.py -->"), "tests/test_nothing.py"),
        ("words\n\n    penstock topics list\n", "backticks"),
    ],
)
def test_a_page_has_a_problem_when_a_block_has_neither_a_result_nor_a_reason(page: str, problem: str) -> None:
    (found,) = problems_of(page)
    assert problem in found


@pytest.mark.parametrize(
    "page",
    [
        block("sh", "false"),
        block("sh", "penstock topics list"),
        block("sh", "true", "<!-- exit code 1: because -->"),
        block("python", "assert False"),
        block("sh", "echo LEADER 1") + block("text", "LEADER  FOLLOWERS"),
    ],
)
def test_a_guide_fails_when_one_of_its_blocks_does(page: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        run_guide(page, tmp_path)
