"""The check of the locked releases against published advisories, with a registry of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TOOL = Path(__file__).parents[3] / "tools" / "advisories.py"
ADVISORY = {"id": "PYSEC-1", "aliases": [], "fixed_in": ["99.0"], "summary": "reads too far", "withdrawn": None}


class Registry(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.headers["authorization"] != "Basic YW5uOnNlY3JldA==":
            self.send_error(401)
            return
        _, pypi, name, version, _ = self.path.split("/")
        has_one = pypi == "pypi" and (name == "starlette" or (name, version) == ("urllib3", "1.24.1"))
        body = json.dumps({"vulnerabilities": [ADVISORY] if has_one else []}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def check(index: str) -> tuple[int, str]:
    environment = {**os.environ, "PIP_INDEX_URL": index, "no_proxy": "127.0.0.1"}
    ended = subprocess.run(
        [sys.executable, TOOL, "--seconds", "60"], capture_output=True, text=True, env=environment, check=False
    )
    assert ended.stderr == ""
    return ended.returncode, ended.stdout


def test_the_check_fails_for_an_advisory_and_not_for_want_of_a_registry() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        code, told = check(f"http://ann:secret@127.0.0.1:{server.server_port}/simple/")
        assert code == 1, told
        assert "starlette" in told.splitlines()[0]
        assert "PYSEC-1 (mended in 99.0) reads too far" in told.splitlines()[0]
        assert "1 with advisories" in told.splitlines()[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    code, told = check(f"http://ann:secret@127.0.0.1:{server.server_port}/simple/")
    assert code == 0
    assert told.startswith("advisories: NOT CHECKED: the package registry has no answer")
    assert "secret" not in told
