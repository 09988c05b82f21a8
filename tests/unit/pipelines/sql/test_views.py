"""Views kept in a file, and questions that use them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.pipelines.errors import SqlError
from penstock.pipelines.sql.statements import CreateView, DropView
from penstock.pipelines.sql.views import Views, expand, used


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "below" / "views.sql"


def test_a_view_is_there_again_when_its_file_is_loaded(file: Path) -> None:
    views = Views.load(file)
    assert views.create(CreateView("big", "SELECT * FROM orders WHERE note -- dear;\n= 'a;b'"))
    assert views.create(CreateView("Bigger", "SELECT * FROM big"))
    assert Views.load(file).queries == {
        "big": "SELECT * FROM orders WHERE note -- dear;\n= 'a;b'",
        "Bigger": "SELECT * FROM big",
    }
    assert "CREATE VIEW `big` AS\nSELECT * FROM orders" in file.read_text()
    assert [path.name for path in file.parent.iterdir()] == ["views.sql"]


def test_wrong_views_are_told_and_skipped_when_somebody_wrote_the_file(file: Path) -> None:
    file.parent.mkdir()
    file.write_text("CREATE VIEW a AS SELECT 1; SELECT 2; CREATE VIEW A AS SELECT 3;\nCREATE VIEW b SELECT 4;")
    views = Views.load(file)
    assert views.queries == {"a": "SELECT 1"}
    assert [line.removeprefix(f"{file}: ") for line in views.wrong] == [
        "statement 2 is skipped: 'SELECT' is no CREATE VIEW",
        "statement 3 is skipped: there is a view A above",
        "statement 4 is skipped: 'SELECT' stands in line 1 where AS is expected",
    ]
    before = file.read_text()
    views.create(CreateView("c", "SELECT 5"))
    assert file.with_suffix(".sql.before").read_text() == before
    assert Views.load(file).wrong == []


def test_a_view_is_replaced_only_when_that_is_said(file: Path) -> None:
    views = Views.load(file)
    views.create(CreateView("v", "SELECT 1"))
    with pytest.raises(SqlError, match="there is a view v already"):
        views.create(CreateView("V", "SELECT 2"))
    assert not views.create(CreateView("V", "SELECT 2", if_not_exists=True))
    assert views.create(CreateView("V", "SELECT 2", is_replacing=True))
    assert Views.load(file).queries == {"v": "SELECT 2"}


def test_a_view_is_dropped_only_when_no_other_uses_it(file: Path) -> None:
    views = Views.load(file)
    views.create(CreateView("a", "SELECT 1"))
    views.create(CreateView("b", "SELECT * FROM `A`"))
    with pytest.raises(SqlError, match="the view a is used by b"):
        views.drop(DropView("a"))
    assert views.drop(DropView("B"))
    assert views.drop(DropView("a"))
    assert not views.drop(DropView("a", if_exists=True))
    with pytest.raises(SqlError, match="there is no view a"):
        views.drop(DropView("a"))


def test_what_another_shell_made_is_kept_when_a_view_is_made(file: Path) -> None:
    one, other = Views.load(file), Views.load(file)
    one.create(CreateView("a", "SELECT 1"))
    other.create(CreateView("b", "SELECT 2"))
    assert list(Views.load(file).queries) == ["a", "b"]


def test_a_view_is_refused_when_it_would_be_a_part_of_itself(file: Path) -> None:
    views = Views.load(file)
    views.create(CreateView("a", "SELECT * FROM topic"))
    views.create(CreateView("b", "SELECT * FROM a"))
    with pytest.raises(SqlError, match="a uses b uses a"):
        views.create(CreateView("a", "SELECT * FROM b", is_replacing=True))
    # The topic orders, not the view.
    views.create(CreateView("orders", "SELECT * FROM orders WHERE total > 0"))


VIEWS = {"a": "SELECT * FROM topic", "b": "SELECT * FROM a", "orders": "SELECT * FROM orders"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM topic", "SELECT * FROM topic"),
        ("SELECT 'a'", "SELECT 'a'"),
        ("SELECT * FROM A", "WITH `a` AS (\nSELECT * FROM topic\n)\nSELECT * FROM A"),
        (
            "SELECT * FROM b, a",
            "WITH `a` AS (\nSELECT * FROM topic\n),\n`b` AS (\nSELECT * FROM a\n)\nSELECT * FROM b, a",
        ),
        (
            "WITH x AS (SELECT * FROM a) SELECT * FROM x",
            "WITH `a` AS (\nSELECT * FROM topic\n), x AS (SELECT * FROM a) SELECT * FROM x",
        ),
        (
            "WITH RECURSIVE x AS (SELECT * FROM a) SELECT 1",
            "WITH RECURSIVE `a` AS (\nSELECT * FROM topic\n), x AS (SELECT * FROM a) SELECT 1",
        ),
        ("TABLE orders", "WITH `orders` AS (\nSELECT * FROM orders\n)\nTABLE orders"),
    ],
)
def test_a_question_has_its_views_in_front_when_it_uses_any(query: str, expected: str) -> None:
    assert expand(query, VIEWS) == expected


@pytest.mark.parametrize(
    ("query", "is_used"),
    [
        ("SELECT total FROM orders", False),
        ("SELECT a, total, f(total) FROM orders o WHERE total > 1 GROUP BY a, total ORDER BY 1, total", False),
        ("SELECT a IS DISTINCT FROM total FROM orders AS total JOIN b ON total.x = b.x AND f(a, total)", False),
        ("SELECT * FROM a JOIN b USING (total)", False),
        ("FROM orders |> EXTEND a, total", False),
        ("SELECT * FROM a WHERE x IN (SELECT y, total FROM b)", False),
        ("SELECT * FROM other.total", False),
        ("SELECT * FROM Total t", True),
        ("SELECT * FROM a JOIN b ON f(a.x, b.x), `total`", True),
        ("SELECT * FROM a TABLESAMPLE (5 ROWS), total", True),
        ("SELECT * FROM (a CROSS JOIN (total JOIN b))", True),
        ("SELECT 1 FROM a WHERE x IN (SELECT y FROM total)", True),
        ("SELECT 1 UNION ALL TABLE total", True),
        ("SELECT * FROM f(TABLE(total))", True),
        ("WITH x AS (FROM total) SELECT * FROM x", True),
    ],
)
def test_a_view_is_used_when_its_name_stands_for_a_table(query: str, is_used: bool) -> None:
    assert used(query, {"total": "SELECT 1"}) == ["total"] * is_used


def test_a_link_stays_when_the_file_of_views_is_one(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    link = tmp_path / "views.sql"
    link.symlink_to(tmp_path / "kept" / "real.sql")
    Views.load(link).create(CreateView("a", "SELECT 1"))
    assert link.is_symlink()
    assert Views.load(tmp_path / "kept" / "real.sql").queries == {"a": "SELECT 1"}


def test_no_view_is_lost_when_shells_make_some_at_once(file: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: Views.load(file).create(CreateView(f"v{number}", "SELECT 1")), range(24)))
    assert len(Views.load(file).queries) == 24
