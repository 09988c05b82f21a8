from __future__ import annotations

from pathlib import Path

import pytest

from penstock.pipelines import Settings, Watermark
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.runtime.pipeline_loader import find_pipelines, import_module, load_pipeline
from penstock.pipelines.runtime.settings import apply_settings

MODULE = """
from __future__ import annotations
from penstock.pipelines import Pipeline, Topic
from tests.unit.pipelines.pieces import Nowhere

one = Pipeline("one", (Topic("t"),), (Nowhere("a"),))

def made(topic: str, limit: int = 5, strict: bool = False) -> Pipeline:
    return Pipeline(f"made-{limit}-{strict}", (Topic(topic),), (Nowhere("a"),))

def wrong(topic: str = "t") -> Pipeline:
    return topic

def unrelated() -> int:
    return 1
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("modules") / "some_pipelines_to_load.py"
    path.write_text(MODULE)
    return str(path)


def test_pipelines_and_their_makers_are_found_when_a_module_is_searched(module: str) -> None:
    assert list(find_pipelines(import_module(module))) == ["one", "made", "wrong"]


def test_a_file_is_refused_when_another_module_has_its_name(tmp_path: Path) -> None:
    path = tmp_path / "json.py"
    path.write_text(MODULE)
    with pytest.raises(PipelineError, match="has the name of another module"):
        import_module(str(path))


def test_user_is_told_what_to_name_when_a_file_has_no_pipeline(tmp_path: Path) -> None:
    path = tmp_path / "nothing_that_could_run.py"
    path.write_text("x = 1\n")
    with pytest.raises(PipelineError, match=r"has no pipeline$") as refused:
        load_pipeline(str(path), {})
    assert refused.value.hint == (
        "A Pipeline needs a name there, or a function -> Pipeline returns it."
        " `penstock pipeline` runs a Pipeline, `penstock streams` a Streams."
    )
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(PipelineError, match=r"folder\.py is a directory$"):
        import_module(str(tmp_path / "folder.py"))


def test_what_a_file_lacks_is_named_when_it_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "needs_something_else.py"
    path.write_text("import no_such_thing_at_all\n")
    with pytest.raises(PipelineError, match="needs no_such_thing_at_all, which is not installed"):
        import_module(str(path))


def test_the_line_is_named_when_a_file_fails_while_it_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "failing_while_loaded.py"
    path.write_text("numbers = {}\nnumbers['one']\n")
    with pytest.raises(PipelineError, match="failing_while_loaded cannot be loaded: KeyError: 'one'") as refused:
        load_pipeline(str(path), {})
    assert refused.value.hint == f"In {path}, line 2: numbers['one']"


def test_settings_are_applied_when_given(module: str) -> None:
    loaded = load_pipeline(
        f"{module}:one",
        {"trigger": "5 seconds", "kafka.client.id": "x", "spark.ui.enabled": "true", "registry.url": "http://r"},
    )
    assert loaded.settings.trigger == "5 seconds"
    assert loaded.settings.kafka == {"client.id": "x"}
    assert loaded.settings.registry == {"url": "http://r"}
    assert loaded.settings.spark == {"spark.ui.enabled": "true"}


def test_parameters_are_filled_and_converted_when_the_pipeline_is_made_by_a_function(module: str) -> None:
    given = {"topic": "x", "limit": "7", "strict": "yes", "parallelism": "3"}
    loaded = load_pipeline(f"{module}:made", given)
    assert loaded.name == "made-7-True"
    assert loaded.sources[0].name == "x"
    assert loaded.settings.parallelism == 3


@pytest.mark.parametrize(
    ("reference", "given", "said"),
    [
        ("", {}, "3 pipelines"),
        (":two", {}, "no pipeline 'two'"),
        (":made", {}, "needs topic"),
        (":made", {"topic": "t", "limit": "many"}, "limit is a number"),
        (":made", {"topic": "t", "strict": "perhaps"}, "strict is true or false"),
        (":made", {"topic": "t", "limits": "1"}, "no setting 'limits'"),
        (":one", {"topic": "t"}, "no setting 'topic'"),
        (":wrong", {}, "returned a str"),
    ],
)
def test_a_reason_is_given_when_a_pipeline_cannot_be_loaded(
    module: str, reference: str, given: dict[str, str], said: str
) -> None:
    with pytest.raises(PipelineError, match=said):
        load_pipeline(module + reference, given)


@pytest.mark.parametrize("name", ["no_such_module_at_all", "no/such/file.py"])
def test_a_reason_is_given_when_a_module_is_not_there(name: str) -> None:
    with pytest.raises(PipelineError, match="there is no"):
        import_module(name)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("engine", "scala", "one of python, jvm"),
        ("parallelism", "two", "whole number"),
        ("watermark", "event_time", "COLUMN:DELAY"),
        ("triger", "1 second", "no setting 'triger'"),
    ],
)
def test_the_setting_is_named_when_its_value_is_wrong(name: str, text: str, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        apply_settings(Settings(), {name: text})


def test_the_right_name_is_offered_when_a_setting_is_misspelt() -> None:
    with pytest.raises(PipelineError) as caught:
        apply_settings(Settings(), {"triger": "1 second"})
    assert "Did you mean trigger?" in caught.value.hint


def test_a_watermark_is_read_when_given_as_text() -> None:
    assert apply_settings(Settings(), {"watermark": "at:10 minutes"}).watermark == Watermark("at", "10 minutes")
