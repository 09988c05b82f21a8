"""Fetches the jars that pom.xml names into .cache/ and says how to run Java with them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
POM = Path(__file__).with_name("pom.xml")
LOGGING = Path(__file__).parent / "logging"
MINIMUM_JAVA = 17
# A cold fetch is about 60 MB in a hundred requests; some registries are slow on the first one.
FETCH_TIMEOUT_S = 900
COMPILE_TIMEOUT_S = 120

# What the start scripts of Kafka's distribution pass to a broker, but for the heap, which they set to 1 GB.
SERVER_HEAP_MB = 1024
SERVER_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
# A broker that tests ask and nobody measures: the optimising compiler takes a third of the CPU time of its start, and
# most of what it takes while it is idle.
UNMEASURED_OPTIONS = (*SERVER_OPTIONS, "-XX:TieredStopAtLevel=1")
# A tool runs for a second or two: a small heap and no optimising compiler start it sooner.
TOOL_OPTIONS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable")


class PeerUnavailableError(Exception):
    """Java, Maven or the jars are missing; the text says what to do."""


def kafka_version() -> str:
    return version_in(POM, "kafka.version")


def fetch_jars() -> Path:
    """The directory with the jars, fetched on first use."""
    return fetch_jars_of(POM, "apache-kafka", kafka_version())


def version_in(pom: Path, name: str) -> str:
    found = re.search(rf"<{re.escape(name)}>([^<]+)<", pom.read_text())
    assert found is not None, "pom.xml names the version once"
    return found.group(1)


def fetch_jars_of(pom: Path, name: str, version: str, goal: str = "copy-dependencies") -> Path:
    """A directory with the jars that `pom` names, fetched on first use; PeerUnavailableError says what is missing.

    Named by the content of the pom, so that a changed version never meets the jars of another."""
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    directory = REPOSITORY / ".cache" / f"{name}-{version}-{digest}"
    if directory.is_dir():
        return directory
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerUnavailableError("Maven is missing: install it (Debian: apt-get install maven) and run again")
    # Fetched beside its place and renamed when whole: an interrupted fetch must not look complete.
    partial = directory.with_name(f"{directory.name}.{os.getpid()}.partial")
    fetched = subprocess.run(
        [
            *(maven, "--batch-mode", "--quiet", "--file", str(pom)),
            *(f"dependency:{goal}", "-DincludeScope=runtime", f"-DoutputDirectory={partial}"),
        ],
        capture_output=True,
        text=True,
        timeout=FETCH_TIMEOUT_S,
        check=False,
    )
    if fetched.returncode != 0:
        shutil.rmtree(partial, ignore_errors=True)
        raise PeerUnavailableError(f"Maven could not fetch {name} {version}:\n{fetched.stdout[-3000:]}")
    if directory.is_dir():
        shutil.rmtree(partial)
    else:
        partial.rename(directory)
    return directory


@cache
def find_java(program: str = "java") -> str:
    """The path of `java` or `javac`, checked once for its version."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(program, path=f"{home}/bin") if home else None
    path = path or shutil.which(program)
    if path is None:
        raise PeerUnavailableError(
            f"{program} is missing: install Java {MINIMUM_JAVA} or newer (Debian: openjdk-17-jdk-headless)"
        )
    answer = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r'(?:version "|javac )(\d+)', answer.stderr + answer.stdout)
    if found is None or int(found.group(1)) < MINIMUM_JAVA:
        raise PeerUnavailableError(f"{path} is older than Java {MINIMUM_JAVA}: install a newer one or set JAVA_HOME")
    return path


def compile_java(sources: Iterable[Path], directory: Path, jars: Path | None = None) -> Path:
    """Classes of the sources in `directory`, by Kafka's jars unless others are named. A warning is an error."""
    command = [find_java("javac"), "-Xlint:all", "-Werror", "-cp", f"{jars or fetch_jars()}/*", "-d", str(directory)]
    compiled = subprocess.run(
        [*command, *sorted(map(str, sources))], capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False
    )
    assert compiled.returncode == 0, compiled.stdout + compiled.stderr
    return directory


@cache
def class_archive() -> Path:
    """Where the tools' loaded classes are kept between runs (class-data sharing); it halves the start of every tool."""
    answer = subprocess.run([find_java(), "-version"], capture_output=True, text=True, timeout=60, check=False)
    digest = hashlib.sha256(answer.stderr.encode()).hexdigest()[:12]
    return fetch_jars().with_name(f"{fetch_jars().name}.{digest}.jsa")


def java_command(
    main_class: str,
    *arguments: str,
    options: Sequence[str] = TOOL_OPTIONS,
    logging: str = "tools.properties",
    classes: Path | None = None,
) -> list[str]:
    """A command line that runs `main_class` with Kafka's jars; `logging` names a file in the logging directory."""
    class_path = f"{fetch_jars()}/*"
    return [
        find_java(),
        *options,
        f"-Dlog4j2.configurationFile={LOGGING / logging}",
        "-cp",
        class_path if classes is None else f"{classes}:{class_path}",
        main_class,
        *arguments,
    ]
