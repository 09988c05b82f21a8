"""Every command and every public name, in a process in which no module of an extra can be imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from penstock.core.extras import EXTRAS, NEEDS, explained, require

REPOSITORY = Path(__file__).parents[3]
WORD_COUNT = str(REPOSITORY / "examples" / "word_count.py")
IP_FRAUD = "penstock.pipelines.jobs.ip_fraud"
JAVA = ". Java 17 or newer is needed, too."

# Nobody's: neither of the system's own choice nor of `find_free_port`. A broker may run at 9092.
PORT = "64990"
# What is tried of each command of the table, and what it says.
SAID = {
    ("registry", "start"): "penstock registry start needs fastavro, which is not installed: "
    "pip install 'penstock[registry]'",
    ("rest", "start"): "penstock rest start needs fastavro, which is not installed: pip install 'penstock[rest]'",
    ("cluster", "start", "--port", PORT): f"penstock cluster start needs kazoo, which is not installed: "
    f"pip install 'penstock[cluster]'{JAVA}",
    ("cluster", "adopt", "--data", "data", "--zookeeper", "127.0.0.1:1"): "penstock cluster adopt needs kazoo, which "
    "is not installed: pip install 'penstock[zookeeper]'",
    ("cluster", "snapshot", "file", "--zookeeper", "127.0.0.1:1"): "penstock cluster snapshot needs kazoo, which is "
    "not installed: pip install 'penstock[zookeeper]'",
    ("cluster", "restore", "file", "--zookeeper", "127.0.0.1:1"): "penstock cluster restore needs kazoo, which "
    "is not installed: pip install 'penstock[zookeeper]'",
    ("zookeeper", "start"): "the jars of ZooKeeper come with PySpark, which is not installed\n"
    "pip install 'penstock[cluster]' brings them. Or run a ZooKeeper of your own and name it with zookeeper.connect.",
    ("pipeline", "run", WORD_COUNT): "penstock pipeline run needs pyspark, which is not installed: "
    f"pip install 'penstock[spark]'{JAVA}",
    ("pipeline", "list", WORD_COUNT): f"word_count needs pyspark, which is not installed: "
    f"pip install 'penstock[spark]'{JAVA}",
    ("pipeline", "describe", IP_FRAUD): f"{IP_FRAUD} needs pyarrow, which is not installed: "
    f"pip install 'penstock[spark]'{JAVA}",
    ("streams", "run", "anything"): "penstock streams run needs pyspark, which is not installed: "
    f"pip install 'penstock[streams]'{JAVA}",
    ("streams", "serve", "app"): "penstock streams serve needs fastavro, which is not installed: "
    "pip install 'penstock[registry]'",
    ("streams", "query", "app", "store"): "penstock streams query needs msgspec, which is not installed: "
    "pip install 'penstock[registry]'",
    ("sql", "SELECT 1"): f"penstock sql needs pyspark, which is not installed: pip install 'penstock[sql]'{JAVA}",
}
NAMES = {
    "Cluster": f"penstock.Cluster needs kazoo, which is not installed: pip install 'penstock[cluster]'{JAVA}",
    "penstock:Registry": "penstock.Registry needs msgspec, which is not installed: pip install 'penstock[registry]'",
    "penstock:AsyncRegistry": "penstock.AsyncRegistry needs msgspec, which is not installed: "
    "pip install 'penstock[registry]'",
    **{
        f"penstock.pipelines.sql:{name}": "penstock.pipelines.sql needs pyarrow, which is not installed: "
        f"pip install 'penstock[sql]'{JAVA}"
        for name in ("Tables", "register")
    },
    "penstock.streams:TopologyTest": f"penstock.streams needs pyarrow, which is not installed: "
    f"pip install 'penstock[streams]'{JAVA}",
}

# Runs the given command lines, asks each command for its help, and touches each public name.
PROBE = """
import contextlib, importlib, io, json, sys

for hidden in json.loads(sys.argv[2]):
    sys.modules[hidden] = None  # neither an import nor a search finds it

from penstock.cli.app import command
from penstock.cli.main import main

def run(arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return [code, err.getvalue()]

def leaves(group, path=()):
    for name in group.list_commands(None):
        found = group.get_command(None, name)
        if hasattr(found, "list_commands"):
            yield from leaves(found, (*path, name))
        else:
            yield [*path, name]

def touch(module, name):
    try:
        getattr(importlib.import_module(module), name)
    except ImportError as error:
        return str(error)
    return ""

said = [run(arguments) for arguments in json.loads(sys.argv[1])]
helped = {" ".join(path): run([*path, "--help"])[0] for path in leaves(command())}
names = {
    f"{module}:{name}": touch(module, name)
    for module in ("penstock", "penstock.admin", "penstock.pipelines", "penstock.pipelines.sql", "penstock.streams")
    for name in importlib.import_module(module).__all__
}
import penstock
try:
    penstock.Cluster().prepare()
except ImportError as error:
    names["Cluster"] = str(error)
print(json.dumps([said, helped, names]))
"""


def extras_of_the_project() -> dict[str, set[str]]:
    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    def distributions(extra: str) -> set[str]:
        found: set[str] = set()
        for requirement in map(Requirement, declared[extra]):
            found |= (
                set().union(*map(distributions, requirement.extras))
                if requirement.name == "penstock"
                else {requirement.name}
            )
        return found

    return {name: distributions(name) for name in declared if name != "dev"}


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = tmp_path_factory.mktemp("probe")
    hidden = sorted({module for extra in EXTRAS.values() for module in extra.modules} | {"py4j"})
    environment = {name: text for name, text in os.environ.items() if name != "SPARK_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(list(SAID)), json.dumps(hidden)],
        cwd=directory,
        env=environment | {"PENSTOCK_BOOTSTRAP": "127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("words", SAID, ids=" ".join)
def test_command_names_what_to_install_when_an_extra_is_missing(words: tuple[str, ...], probed: Any) -> None:
    """`registry start` ended with a traceback, and `streams run` named an extra that did not do."""
    assert probed[0][list(SAID).index(words)] == [1, f"Error: {SAID[words]}\n"]


def test_every_command_of_the_table_is_tried() -> None:
    tried = [f"penstock {' '.join(words)} " for words in SAID]
    commands = [name for name in NEEDS if name.startswith("penstock ")]
    assert [name for name in commands if not any(each.startswith(f"{name} ") for each in tried)] == []


def test_help_of_every_command_is_there_when_all_extras_are_missing(probed: Any) -> None:
    assert len(probed[1]) > 80
    assert {path: code for path, code in probed[1].items() if code != 0} == {}


def test_public_name_says_what_to_install_when_an_extra_is_missing(probed: Any) -> None:
    """`penstock.Registry` was a ModuleNotFoundError about a module that nobody had heard of."""
    assert {name: text for name, text in probed[2].items() if text} == NAMES


def test_table_has_what_the_project_declares() -> None:
    """`[cluster]` had not what `penstock cluster start` needs."""
    modules = {
        "googleapis-common-protos": "google.type",
        "jsonschema-rs": "jsonschema_rs",
        "prompt-toolkit": "prompt_toolkit",
        "protobuf": "google.protobuf",
    }
    declared = {
        extra: {modules.get(name, name) for name in distributions}
        for extra, distributions in extras_of_the_project().items()
    }
    assert {name: set(extra.modules) for name, extra in EXTRAS.items()} == declared


@pytest.mark.parametrize("extra", [name for name in EXTRAS if name != "gssapi"])
def test_nothing_is_missing_when_the_extra_is_installed(extra: str) -> None:
    require(extra, "the test")


def test_the_part_that_is_missing_is_named_when_others_share_the_beginning_of_its_name() -> None:
    told = explained(ModuleNotFoundError(name="google.type.date_pb2"), "penstock registry start")
    assert str(told).startswith("penstock registry start needs google.type, which is not installed")


@pytest.mark.parametrize("module", ["penstock.pipelines.steps", IP_FRAUD])
def test_extra_for_spark_brings_all_that_a_pipeline_imports(module: str) -> None:
    """Steps needed msgspec, which only the registry's extra brought."""
    others = {each for extra in EXTRAS.values() for each in extra.modules} - set(EXTRAS["spark"].modules)
    hide = f"import importlib, sys; sys.modules.update(dict.fromkeys({sorted(others)!r}))"
    program = f"{hide}; importlib.import_module({module!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_error_stays_as_it_is_when_no_extra_brings_the_module() -> None:
    error = ModuleNotFoundError("No module named 'left_pad'", name="left_pad")
    assert explained(error, "penstock sql") is error
