from __future__ import annotations

import threading
from typing import Any

import pytest

import advisories
from advisories import WITNESS, Advisory, Package, UnansweredError, judge, locked_packages, read_advisories

GOOD, BAD, SILENT = Package("good", "1.0"), Package("bad", "2.0"), Package("silent", "3.0")
OLD = Advisory(WITNESS, "CVE-2019-11324", ("1.24.2",), "")
FOUND = Advisory(BAD, "PYSEC-1", ("2.1",), "reads too far")


def answered(package: Package) -> list[Advisory]:
    if package == SILENT:
        raise UnansweredError("away")
    return {WITNESS: [OLD], BAD: [FOUND]}.get(package, [])


def listed(**more: Any) -> dict[str, Any]:
    return {"vulnerabilities": [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fixed_in": ["2.1"], **more}]}


def test_each_release_of_the_locks_is_asked_for_once() -> None:
    one = '# made by uv\nBad==2.0 ; python_version < "3.12" \\\n    --hash=sha256:aa==1 \\\n'
    assert locked_packages([one, "bad==2.0 \\\n    --hash=x\ngood==1.0\n"]) == [BAD, GOOD]


def test_advisories_are_found_and_who_did_not_answer_is_named() -> None:
    assert judge([GOOD, BAD, SILENT], answered, 60) == ([FOUND], [SILENT])
    assert str(FOUND) == "bad 2.0: PYSEC-1 (mended in 2.1) reads too far"


def test_nothing_counts_as_checked_when_the_registry_publishes_no_advisories() -> None:
    with pytest.raises(UnansweredError, match="publishes none"):
        judge([GOOD], lambda _: [], 60)


def test_a_question_without_an_answer_does_not_hold_the_check_up() -> None:
    let_go = threading.Event()

    def ask(package: Package) -> list[Advisory]:
        if package == SILENT:
            let_go.wait(20)
        return answered(package)

    assert SILENT in judge([SILENT, BAD], ask, 0.2).unanswered
    let_go.set()


def test_advisories_that_were_withdrawn_are_left_out() -> None:
    assert [each.id for each in read_advisories(BAD, listed(summary="reads too far"))] == ["PYSEC-1"]
    assert read_advisories(BAD, listed(withdrawn="2024-01-01T00:00:00Z")) == []


@pytest.mark.parametrize("answer", [{}, [], {"vulnerabilities": None}])
def test_an_answer_without_a_list_is_no_answer(answer: Any) -> None:
    with pytest.raises(UnansweredError):
        read_advisories(BAD, answer)


def test_every_accepted_advisory_has_a_reason() -> None:
    assert all(advisories.ACCEPTED.values())
