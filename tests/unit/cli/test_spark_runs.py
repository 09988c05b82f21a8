from __future__ import annotations

import pytest

from penstock.cli.commands.spark_runs import with_known_servers
from penstock.pipelines.pipeline import Settings


@pytest.mark.parametrize(
    ("said", "known", "used"),
    [
        (None, "b:1", "b:1"),
        ("a:1", "b:1", "a:1"),
        (None, "", Settings().bootstrap_servers),
    ],
)
def test_the_environment_names_the_brokers_when_nothing_else_does(
    monkeypatch: pytest.MonkeyPatch, said: str | None, known: str, used: str
) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", known)
    settings = Settings() if said is None else Settings(bootstrap_servers=said)
    assert with_known_servers(settings).bootstrap_servers == used
