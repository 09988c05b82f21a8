"""The lines of the guide, run by a shell as a reader would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.confluent import create_topic
from tests.clients.conftest import RunningBroker
from tests.clients.rest.talking import running_rest
from tests.clients.support import PATIENCE_S, new_name
from tests.fake_registry import running_registry

_ROOT = Path(__file__).parents[3]
GUIDE = _ROOT / "docs" / "guides" / "rest-proxy.md"
README = _ROOT / "README.md"
_REGISTRY_URL = "http://127.0.0.1:8081"
_URL = "http://localhost:8082"


@pytest.mark.skipif(shutil.which("curl") is None, reason="the guide's lines need curl")
def test_every_line_of_the_guide_succeeds_when_it_is_run_in_its_order(broker: RunningBroker) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    topic = create_topic(broker.bootstrap_servers, name=new_name("orders"))
    with (
        running_registry() as registry,
        running_rest(broker.bootstrap_servers, **{"schema.registry.url": registry.url}) as rest,
    ):
        script = "\n".join(blocks).replace(_URL, rest.url).replace("orders", topic).replace("billing", new_name("b"))
        function = 'curl() { command curl --silent --show-error --fail-with-body "$@"; echo; }\n'
        done = subprocess.run(
            ["bash", "-euc", function + script], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert '"value":{"id":1}' in done.stdout, "the records that were produced are consumed"


@pytest.mark.skipif(shutil.which("curl") is None, reason="the lines need curl")
def test_lines_of_the_readme_about_schemas_succeed_when_they_are_run_in_their_order(
    broker: RunningBroker, tmp_path: Path
) -> None:
    section = README.read_text().partition("## Schemas, and topics over HTTP")[2].partition("\n## ")[0]
    _, script = re.findall(r"^```\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    with running_registry() as registry, running_rest(broker.bootstrap_servers) as rest:
        script = script.replace(_REGISTRY_URL, registry.url).replace("localhost:8082", rest.url)
        script = script.replace("sales", new_name("sales")).replace("clicks", new_name("clicks"))
        run_penstock = f'"{sys.executable}" -c "import sys; from penstock.cli.main import main; sys.exit(main())"'
        functions = (
            'curl() { command curl --silent --show-error --fail-with-body "$@"; echo; }\n'
            f'penstock() {{ {run_penstock} "$@"; }}\n'
        )
        done = subprocess.run(
            ["bash", "-euc", functions + script],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PENSTOCK_BOOTSTRAP": broker.bootstrap_servers},
        )
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert '{"id":7}' in done.stdout
    assert '"offset":0' in done.stdout
