from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator

import pytest

from penstock.broker.log_levels import LEVELS, alter_levels, describe_levels
from penstock.core.config.resources import ConfigChange, ConfigOperation, ConfigSource
from penstock.protocol.errors import ApiError, ErrorCode

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
_numbers = itertools.count()


class Tree:
    """Loggers of its own for each test: `a`, `a.b` and `c.d`, so that `c` is known as a parent alone."""

    def __init__(self) -> None:
        self.top = f"levels-{next(_numbers)}"
        self.root = logging.getLogger(self.top)
        self.root.setLevel(logging.INFO)
        self.a, self.b, self.d = (logging.getLogger(f"{self.top}.{name}") for name in ("a", "a.b", "c.d"))

    def change(self, *changes: tuple[str, ConfigOperation, str | None], validate_only: bool = False) -> None:
        named = [ConfigChange(self.name(name), operation, value) for name, operation, value in changes]
        alter_levels(named, changed_by="me", validate_only=validate_only, top=self.top)

    def name(self, name: str) -> str:
        return name if name == "root" else f"{self.top}.{name}"

    def levels(self) -> dict[str, str | None]:
        entries = describe_levels(top=self.top)
        return {entry.name.removeprefix(f"{self.top}."): entry.value for entry in entries}


@pytest.fixture
def tree() -> Iterator[Tree]:
    tree = Tree()
    yield tree
    for each in (tree.root, tree.a, tree.b, tree.d):
        each.setLevel(logging.NOTSET)


class TestDescribe:
    def test_every_logger_has_the_level_in_effect_when_described(self, tree: Tree) -> None:
        tree.a.setLevel(logging.ERROR)
        assert tree.levels() == {"root": "INFO", "a": "ERROR", "a.b": "ERROR", "c.d": "INFO"}

    def test_named_loggers_alone_are_described_when_some_are_named(self, tree: Tree) -> None:
        (entry,) = describe_levels(["root", "no.such"], top=tree.top)
        assert (entry.name, entry.value, entry.source) == (
            "root",
            "INFO",
            ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
        )
        assert not entry.read_only

    @pytest.mark.parametrize(
        ("number", "name"),
        [(1, "TRACE"), (5, "TRACE"), (10, "DEBUG"), (19, "DEBUG"), (25, "INFO"), (50, "FATAL"), (60, "FATAL")],
    )
    def test_nearest_name_below_is_told_when_a_level_is_none_of_kafkas(
        self, tree: Tree, number: int, name: str
    ) -> None:
        tree.a.setLevel(number)
        assert tree.levels()["a"] == name

    def test_brokers_own_loggers_are_described_when_no_tree_is_named(self) -> None:
        names = [entry.name for entry in describe_levels()]
        assert {"root", "penstock.broker.log_levels"} <= set(names)
        assert all(name == "root" or name.startswith("penstock.") for name in names)


class TestAlter:
    @pytest.mark.parametrize("level", list(LEVELS))
    def test_level_is_set_when_it_is_one_of_kafkas(self, tree: Tree, level: str) -> None:
        tree.change(("a", SET, level))
        assert tree.levels() == {"root": "INFO", "a": level, "a.b": level, "c.d": "INFO"}

    def test_lines_come_and_go_when_the_level_changes(self, tree: Tree, caplog: pytest.LogCaptureFixture) -> None:
        tree.b.debug("one")
        tree.change(("root", SET, "DEBUG"))
        tree.b.debug("two")
        tree.change(("root", SET, "FATAL"))
        tree.b.error("three")
        assert [record.message for record in caplog.records if record.name == tree.b.name] == ["two"]

    def test_level_is_inherited_again_when_deleted(self, tree: Tree) -> None:
        tree.change(("a", SET, "ERROR"), ("a.b", SET, "DEBUG"))
        tree.change(("a.b", DELETE, None))
        assert tree.levels()["a.b"] == "ERROR"
        tree.change(("a", DELETE, ""))
        tree.change(("a", DELETE, None))
        assert tree.levels()["a.b"] == "INFO"

    def test_line_is_logged_when_a_change_silences_warnings(self, tree: Tree, caplog: pytest.LogCaptureFixture) -> None:
        own = logging.getLogger("penstock.broker.log_levels")
        own.setLevel(logging.CRITICAL)  # as it is once `root` is at FATAL
        try:
            tree.change(("root", SET, "FATAL"))
        finally:
            own.setLevel(logging.NOTSET)
        assert [record.message for record in caplog.records] == ["log levels were changed"]

    def test_one_line_tells_who_changed_what_when_something_changed(
        self, tree: Tree, caplog: pytest.LogCaptureFixture
    ) -> None:
        tree.change(("a", SET, "DEBUG"), ("root", SET, "INFO"))
        tree.change(("a", SET, "DEBUG"))
        (record,) = caplog.records
        assert (record.levelno, record.message) == (logging.WARNING, "log levels were changed")
        assert (vars(record)["levels"], vars(record)["client"]) == (f"{tree.top}.a=DEBUG", "me")

    def test_nothing_changes_when_only_validated(self, tree: Tree) -> None:
        tree.change(("a", SET, "DEBUG"), validate_only=True)
        assert tree.levels()["a"] == "INFO"
        with pytest.raises(ApiError):
            tree.change(("a", SET, "LOUD"), validate_only=True)

    @pytest.mark.parametrize(
        ("name", "operation", "value", "code", "text"),
        [
            ("nobody", SET, "DEBUG", ErrorCode.INVALID_CONFIG, "does not exist!"),
            ("nobody", DELETE, None, ErrorCode.INVALID_CONFIG, "does not exist!"),
            ("c", SET, "DEBUG", ErrorCode.INVALID_CONFIG, "does not exist!"),
            (
                "a",
                SET,
                "debug",
                ErrorCode.INVALID_CONFIG,
                "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
            ),
            ("a", SET, "OFF", ErrorCode.INVALID_CONFIG, "not a supported log level"),
            ("a", SET, "", ErrorCode.INVALID_CONFIG, "not a supported log level"),
            ("a", APPEND, "DEBUG", ErrorCode.INVALID_REQUEST, "APPEND operation is not allowed"),
            ("a", SUBTRACT, "DEBUG", ErrorCode.INVALID_REQUEST, "SUBTRACT operation is not allowed"),
            ("root", DELETE, None, ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger"),
        ],
    )
    def test_nothing_changes_when_one_of_the_changes_is_not_possible(
        self, tree: Tree, name: str, operation: ConfigOperation, value: str | None, code: ErrorCode, text: str
    ) -> None:
        with pytest.raises(ApiError) as caught:
            tree.change(("a.b", SET, "DEBUG"), (name, operation, value))
        assert caught.value.code is code
        assert text in caught.value.message
        assert set(tree.levels().values()) == {"INFO"}

    def test_no_logger_is_made_when_a_client_names_one_that_does_not_exist(self, tree: Tree) -> None:
        before = len(logging.Logger.manager.loggerDict)
        for number in range(100):
            with pytest.raises(ApiError):
                tree.change((f"new-{number}", SET, "DEBUG"))
        assert len(logging.Logger.manager.loggerDict) == before
