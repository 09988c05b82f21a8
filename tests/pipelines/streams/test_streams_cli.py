"""`penstock streams describe` and `reset` of an application in a file. `run` is `penstock pipeline run` inside."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import AdminClient

from penstock.streams.runtime.topics import make_topics
from tests.clients.cli_runner import Cli
from tests.pipelines.committed import make_topic, unique

CODE = """
from penstock.streams import Streams, json

def counting(name: str, topic: str) -> Streams:
    app = Streams(name)
    app.stream(topic, value=json("user string")).group_by("user").count(name="per-user").to(topic + "-out")
    return app
"""


def test_an_application_is_drawn_and_what_is_its_own_is_deleted_when_asked(bootstrap: str, tmp_path: Path) -> None:
    topic, name, cli = make_topic(bootstrap, "clicks"), unique("counting"), Cli(bootstrap)
    file = tmp_path / f"{unique('counting_job').replace('-', '_')}.py"
    file.write_text(CODE)
    given = {"name": name, "topic": topic, "bootstrap_servers": bootstrap, "checkpoint": str(tmp_path / "checkpoint")}
    settings = [part for key, value in given.items() for part in ("--set", f"{key}={value}")]
    drawn = cli.try_run("streams", "describe", str(file), *settings)
    assert drawn.code == 0, drawn.err
    assert "query per-user (update)" in drawn.text
    assert f"consumer groups    {name}-per-user" in drawn.text
    namespace: dict[str, object] = {}
    exec(CODE, namespace)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    make_topics(admin, namespace["counting"](name, topic).plan())  # type: ignore[operator]
    (tmp_path / "checkpoint").mkdir()
    asked = cli.try_run("streams", "reset", str(file), *settings)
    assert asked.code != 0
    assert f"the topics {name}-per-user-changelog" in asked.err + asked.text
    done = cli.try_run("streams", "reset", str(file), *settings, "--yes")
    assert done.code == 0, done.err
    assert done.text.splitlines() == [
        f"deleted the topic {name}-per-user-changelog",
        f"deleted the checkpoint {tmp_path / 'checkpoint'}",
        f"there was no group {name}-per-user",
    ]
    left = admin.list_topics(timeout=30).topics
    assert f"{topic}-out" in left
    assert f"{name}-per-user-changelog" not in left
    missing = cli.try_run("streams", "describe", str(file), "--set", "nome=x")
    assert "there is no setting 'nome'" in missing.err
