"""Asks the package registry that pip uses whether advisories are published about the locked dependencies.

Run by `make check`. An advisory that stands fails the check. A registry that cannot be reached, or that publishes no
advisories (a mirror has none), does not: then one line says "not checked" and why. Whether a registry publishes any
is seen by a release that has had one for years. The first question, all others together, and the last answers have
`--seconds` each: who has not answered by then is named as not checked.

`ACCEPTED` names advisories that do not concern Penstock, with the reason.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import re
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

REPOSITORY = Path(__file__).resolve().parents[1]

# "the advisory's id" -> why it does not concern Penstock.
ACCEPTED: dict[str, str] = {}

_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)
# Thirty at a time take two seconds for all, where each takes a third of one.
_PATIENCE_S = 3.0
_AT_ONCE = 30
# The metadata of one release; the largest seen has 0.4 MB.
_MOST_BYTES = 8 << 20


class Package(NamedTuple):
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


# CVE-2019-11324 and others.
WITNESS = Package("urllib3", "1.24.1")


class Advisory(NamedTuple):
    package: Package
    id: str
    fixed_in: tuple[str, ...]
    summary: str

    def __str__(self) -> str:
        mended = f"mended in {', '.join(self.fixed_in)}" if self.fixed_in else "not mended yet"
        return f"{self.package}: {self.id} ({mended}) {self.summary}".rstrip()


class UnansweredError(Exception):
    """The registry does not say. The text says why."""


Ask = Callable[[Package], list[Advisory]]


class Verdict(NamedTuple):
    advisories: list[Advisory]
    unanswered: list[Package]


# ----------------------------------------------------------------------------------------------------- decisions


def locked_packages(locks: Iterable[str]) -> list[Package]:
    return sorted({Package(name.lower(), version) for text in locks for name, version in _PINNED.findall(text)})


def read_advisories(package: Package, answer: Any) -> list[Advisory]:
    """From the registry's metadata of a release. Those that were withdrawn or accepted are left out."""
    listed = answer.get("vulnerabilities") if isinstance(answer, dict) else None
    if not isinstance(listed, list):
        raise UnansweredError("the registry's answers have no advisories")
    found = []
    for each in listed:
        names = {each["id"], *each.get("aliases", ())}
        if not each.get("withdrawn") and not names & ACCEPTED.keys():
            summary = (each.get("summary") or each.get("details") or "").strip().partition("\n")[0]
            found.append(Advisory(package, each["id"], tuple(each.get("fixed_in", ())), summary[:200]))
    return found


def judge(packages: Iterable[Package], ask: Ask, patience_s: float) -> Verdict:
    """Raises UnansweredError where the registry publishes no advisories at all."""
    if not ask(WITNESS):
        raise UnansweredError(f"the registry knows of no advisory about {WITNESS}, so it publishes none")
    threads = ThreadPoolExecutor(_AT_ONCE)
    jobs = {threads.submit(ask, each): each for each in packages}
    done, _ = wait(jobs, timeout=patience_s)
    threads.shutdown(wait=False, cancel_futures=True)
    answered = [job for job in done if job.exception() is None]
    advisories = [advisory for job in answered for advisory in job.result()]
    return Verdict(sorted(advisories), sorted(jobs[job] for job in jobs.keys() - set(answered)))


# ----------------------------------------------------------------------------------------------------- the registry


class Registry:
    """The index that pip is set up with, or pip's own default."""

    def __init__(self, index: str, certificates: str | None, patience_s: float) -> None:
        parts = urlsplit(index)
        self._login = ""
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._login = "Basic " + base64.b64encode(login.encode()).decode()
        path = parts.path.rstrip("/").removesuffix("/simple")
        self._address = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", ""))
        self._patience_s = patience_s
        self._tls = ssl.create_default_context(cafile=certificates)

    def ask(self, package: Package) -> list[Advisory]:
        address = f"{self._address}/pypi/{package.name}/{package.version}/json"
        request = urllib.request.Request(address, headers={"accept": "application/json"})  # noqa: S310 - find_registry saw to http
        if self._login:
            request.add_unredirected_header("authorization", self._login)
        try:
            with urllib.request.urlopen(request, timeout=self._patience_s, context=self._tls) as answer:  # noqa: S310
                return read_advisories(package, json.loads(answer.read(_MOST_BYTES)))
        except (OSError, http.client.HTTPException) as error:
            raise UnansweredError(f"the package registry has no answer ({error})") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UnansweredError("the package registry answers with something else") from None


def find_registry(patience_s: float) -> Registry:
    """Raises UnansweredError."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    settings = dict(re.findall(r"^\S*\.(index-url|cert)='(.*)'$", listed.stdout, re.MULTILINE))
    index = os.environ.get("PIP_INDEX_URL") or settings.get("index-url") or _default_index()
    if urlsplit(index).scheme not in ("http", "https"):
        raise UnansweredError("pip's index is no registry")
    try:
        return Registry(index, settings.get("cert"), patience_s)
    except OSError as error:
        raise UnansweredError(f"pip's certificates cannot be read ({error})") from None


def _default_index() -> str:
    try:
        from pip._internal.models.index import PyPI
    except ImportError:
        raise UnansweredError("pip does not say which index it uses") from None
    return str(PyPI.simple_url)


def main() -> int:
    parser = argparse.ArgumentParser(description="Are advisories published about the locked dependencies?")
    parser.add_argument("--seconds", type=float, default=_PATIENCE_S, help="how long a registry has for its answers")
    patience_s = parser.parse_args().seconds
    packages = locked_packages(path.read_text() for path in sorted((REPOSITORY / "requirements").glob("*.lock")))
    try:
        advisories, unanswered = judge(packages, find_registry(patience_s).ask, patience_s)
    except UnansweredError as error:
        print(f"advisories: NOT CHECKED: {error}")
        return 0
    for each in advisories:
        print(each)
    print(f"advisories: {len(packages) - len(unanswered)} releases checked, {len(advisories)} with advisories")
    if unanswered:
        print(f"advisories: NOT CHECKED, for want of an answer: {', '.join(map(str, unanswered))}")
    return 1 if advisories else 0


if __name__ == "__main__":
    sys.exit(main())
