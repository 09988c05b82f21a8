"""A guide from top to bottom, in one directory, as a reader would try it.

The blocks run as they stand there, in namespaces of their own: ports and host names are the guide's, and all that the
guide starts ends with it. What stands for the reader is in `shell.sh`.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from penstock.core.extras import EXTRAS
from tests.guides.blocks import ROOT, Block, Kind, read_blocks
from tests.servers import give_up_without

HERE = Path(__file__).parent
PATIENCE_S = 280.0  # on a machine that is busy with other tests
NAMESPACES = ("unshare", "--map-root-user", "--net", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc")
# Machines of the guides are all this one.
HOSTS = "127.0.0.1 localhost kafka1 kafka2 kafka3 b1 zk1 zk2 zk3 a.example b.example registry-1.example old new"
# Directories of the guides are in the one where the guide runs.
PLACES = ("/etc/penstock", "/var/lib/penstock", "/run/secrets", "/opt/penstock", "/backup")
# A measurement is shorter than a reader's.
INSTEAD = {"--records 1000000": "--records 2000", "--seconds 20 ": "--seconds 2 "}
KNOWN_ELSEWHERE = ("PENSTOCK_BOOTSTRAP", "PENSTOCK_REGISTRY")
# Java code for a query pays after thousands of rows.
FOR_ONE_ROW = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# Languages that the shell or Python runs; of the others a page shows something.
RUNS = ("sh", "python")
MARK = "#### line {} ####"
BAD = ("Traceback", "FAIL|")


def runs_here(block: Block, is_interop: bool) -> bool:
    return not block.reasons or (is_interop and list(block.reasons) == [Kind.INTEROP])


def run_guide(page: str, directory: Path, *, is_interop: bool = False) -> str:
    """Fails where a block does; what was said, with a line before each block."""
    for program in ("unshare", "ip", "curl"):
        if shutil.which(program) is None:
            give_up_without(program, "broker")
    if subprocess.run([*NAMESPACES, "true"], check=False, capture_output=True).returncode:
        give_up_without("namespaces", "broker")
    aside, here = directory / "aside", directory / "here"
    aside.mkdir()
    here.mkdir()
    blocks = [block for block in read_blocks(page) if runs_here(block, is_interop)]
    script = aside / "script.sh"
    script.write_text("\n".join([f". {HERE}/shell.sh", *_read_steps(blocks, aside, here), "end"]) + "\n")
    (aside / "hosts").write_text(f"{HOSTS} {socket.gethostname()}\n")
    (aside / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in FOR_ONE_ROW.items()))
    said = aside / "said"
    with said.open("wb") as file:
        try:
            code = subprocess.run(
                [*NAMESPACES, "bash", str(script)],
                cwd=here,
                env=_environment(aside),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=PATIENCE_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = None
    text = said.read_text(errors="replace")
    assert code == 0, text
    assert not [bad for bad in BAD if bad in text], text
    _check_what_is_shown(blocks, text)
    return text


def _environment(aside: Path) -> dict[str, str]:
    own = {
        "ASIDE": str(aside),
        "EXTRAS": " ".join(EXTRAS),
        "HERE": str(HERE),
        "HOME": str(aside),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # of those that the tests need, ours is the reader's
        "PYTEST_PLUGINS": "penstock.testing.pytest_plugin",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "src"),
        "REPOSITORY": str(ROOT),
        "SPARK_CONF_DIR": str(aside),
        "TMPDIR": str(aside),
    }
    return {name: value for name, value in os.environ.items() if name not in KNOWN_ELSEWHERE} | own


def _read_steps(blocks: Sequence[Block], aside: Path, here: Path) -> Iterator[str]:
    """The shell's lines for each block. A block that begins with the name of a file is written there; a file of Python
    that no command names is run itself, and says nothing."""
    commands = "".join(block.first + block.text for block in blocks if block.language == "sh")
    if "penstock " in commands:  # before a pipe asks for it, which is another shell
        yield "begin forks"
    for block in blocks:
        text, first = (_move(part, here) for part in (block.text, block.first))
        yield f"echo '{MARK.format(block.line)}'"
        if block.language == "sh":
            yield _commands(f"{first}\n{text}", block.exit_code)
        elif block.file_name:
            yield f"cat > {block.file_name} <<'END_OF_FILE'\n{text}END_OF_FILE"
            if block.file_name.startswith("test_"):
                yield f'"$PYTHON" -m pytest --quiet -p no:cacheprovider {block.file_name}'
            elif block.language == "python" and block.file_name not in commands:
                yield f"silently {block.file_name}"
        elif block.language == "python":
            cell = aside / f"line_{block.line}.py"
            cell.write_text(f"{first}\n{text}")
            yield f"cell {cell}"


def _commands(text: str, exit_code: int) -> str:
    if not exit_code:
        return text
    *before, last = re.sub(r"\\\n\s*", "", text.strip()).splitlines()
    return "\n".join([*before, "code=0", f"{last.partition(' #')[0]} || code=$?", f"[ $code = {exit_code} ]"])


def _move(text: str, here: Path) -> str:
    for said, meant in ({place: f"{here}{place}" for place in PLACES} | INSTEAD).items():
        text = text.replace(said, meant)
    return text


def _check_what_is_shown(blocks: Sequence[Block], said: str) -> None:
    """A block of text shows what the commands above it say: the words of its first line, in their order."""
    before: Block | None = None
    for block in blocks:
        if block.language in RUNS:
            before = block
        elif block.language == "text":
            assert before is not None, f"line {block.line} shows what no block before it says"
            output = said.partition(MARK.format(before.line))[2].partition("#### line ")[0]
            words = re.findall(r"[A-Za-z]{2,}", block.text.splitlines()[0])
            assert re.search(r"\b.*\b".join(words), output), f"line {block.line}: {words} are not in:\n{output}"
