"""`penstock log`: look into the files of a data directory, ours or Apache Kafka's, without a broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from penstock.cli import output
from penstock.cli.errors import CliError, UsageError
from penstock.cli.log_files.cleaner import cleaner_documents, cleaner_table, read_progress
from penstock.cli.log_files.directories import directory_documents, directory_table, scan_directory
from penstock.cli.log_files.dump import Dump, DumpOptions, FileProblem
from penstock.cli.log_files.verify import verify_indexes
from penstock.cli.options import AsJson
from penstock.cli.progress import progress
from penstock.cli.text import plural
from penstock.cli.times import format_time
from penstock.log.formats import names

app = typer.Typer(help="Look into log files, without a broker.", no_args_is_help=True, rich_markup_mode=None)

Row = TypeVar("Row")
ReadDirectory = Callable[[Path, frozenset[str] | None], Iterable[Row]]

DataDirectories = Annotated[list[Path], typer.Argument(metavar="DIR", help="Data directories.", show_default=False)]
OnlyTopics = Annotated[list[str] | None, typer.Option("--topic", "-t", help="Only this topic; may be repeated.")]

# Of a directory, the files with something to show; the rest belongs to them.
_DUMPED_SUFFIXES = (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX, names.SNAPSHOT)


@app.command()
def dump(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Files, or partition directories.", show_default=False)
    ],
    records: Annotated[bool, typer.Option("--records", "-r", help="Also the records inside the batches.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Print only what is wrong; check records and indexes too.")
    ] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Show records of internal topics as bytes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Show segments, indexes, snapshots and checkpoints. Ends with 1 when something in them is damaged."""
    options = DumpOptions(records or verify, not raw)
    paths = expand_paths(files)
    findings: list[FileProblem] = []
    sizes = {path: _size_of(path) for path in paths}
    with progress("Verifying", sum(sizes.values()), enabled=verify, in_bytes=True) as advance:
        for path, size in sizes.items():
            try:
                findings += _dump_file(path, options, verify=verify, as_json=as_json, is_only=len(paths) == 1)
            except FileNotFoundError:
                # Retention and compaction of a running broker remove files after they were listed.
                output.note(f"{path}: skipped, the file was removed meanwhile")
            advance(size)
    if as_json:
        output.print_json_lines({"type": "finding", "file": str(path), "text": text} for path, text in findings)
    if findings:
        raise CliError(
            "\n".join(map(str, findings)), f"{plural(len(findings), 'finding')} in {plural(len(paths), 'file')}."
        )


def _size_of(path: Path) -> int:
    """0 when the file was removed since it was listed."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def expand_paths(given: list[Path]) -> list[Path]:
    """A directory stands for the log files in it."""
    paths: list[Path] = []
    for path in given:
        if path.is_dir():
            inside = sorted(child for child in path.iterdir() if child.suffix in _DUMPED_SUFFIXES)
            if not inside:
                raise UsageError(f"{path} holds no log files", "Name a partition's directory, such as DATA/topic-0.")
            paths.extend(inside)
        elif path.exists():
            paths.append(path)
        else:
            raise UsageError(f"{path} does not exist")
    return paths


def _dump_file(path: Path, options: DumpOptions, *, verify: bool, as_json: bool, is_only: bool) -> list[FileProblem]:
    dumped = Dump(path, options)
    documents = dumped.read()
    if verify:
        count = sum(1 for _ in documents)
        findings = dumped.findings + (verify_indexes(path) if path.suffix == names.LOG else [])
        if not as_json:
            counted = (
                f"{dumped.batches:,} batches, {plural(dumped.records, 'record')}"
                if path.suffix == names.LOG
                else f"{count:,} entries"
            )
            output.say(f"{path}: {'damaged' if findings else 'ok'} ({counted})")
        return findings
    if not as_json and not is_only:
        output.say(f"{path}:")
    _print(documents, path, as_json)
    return dumped.findings


def _print(documents: Iterator[dict[str, Any]], path: Path, as_json: bool) -> None:
    for document in documents:
        if as_json:
            output.print_json_lines([{"file": str(path), **document}])
        else:
            output.say(format_document(document))


def format_document(document: dict[str, Any]) -> str:
    """`batch position=0 size=85 ...`: a line to read and to grep."""
    kind = document["type"]
    fields = (
        _batch_fields(document) if kind == "batch" else {key: value for key, value in document.items() if key != "type"}
    )
    indent = "  " if kind == "record" else ""
    return f"{indent}{kind} " + " ".join(f"{key}={_format_value(key, value)}" for key, value in fields.items())


def _batch_fields(document: dict[str, Any]) -> dict[str, Any]:
    """Fields without information are left out: no producer, no flags."""
    fields = {
        "position": document["position"],
        "size": document["size"],
        "offsets": f"{document['base_offset']}..{document['last_offset']}",
        "records": document["records"],
        "codec": document["codec"],
        "max_timestamp": document["max_timestamp"],
        "leader_epoch": document["leader_epoch"],
    }
    if document["timestamp_type"] != "CreateTime":
        fields["timestamp_type"] = document["timestamp_type"]
    if document["producer_id"] >= 0:
        fields["producer"] = f"{document['producer_id']}/{document['producer_epoch']}"
        fields["sequence"] = document["base_sequence"]
    flags = [name for name in ("transactional", "control") if document[name]]
    if flags:
        fields["flags"] = ",".join(flags)
    fields["crc"] = "ok" if document["valid"] else "WRONG"
    return fields


def _format_value(key: str, value: Any) -> str:
    if key.endswith("timestamp") and isinstance(value, int):
        return format_time(value)
    if key in ("key", "value") or isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def _read_each(directories: list[Path], topics: list[str] | None, read: ReadDirectory[Row]) -> list[Row]:
    wanted = frozenset(topics) if topics else None
    rows: list[Row] = []
    for directory in directories:
        if not directory.is_dir():
            raise UsageError(f"{directory} is not a directory")
        rows.extend(read(directory, wanted))
    return rows


@app.command()
def dirs(
    directories: DataDirectories,
    topic: OnlyTopics = None,
    as_json: AsJson = False,
) -> None:
    """Show the partitions in data directories, their segments and sizes. (Of a running cluster: cluster log-dirs.)"""
    partitions = _read_each(directories, topic, scan_directory)
    if as_json:
        output.print_json(directory_documents(partitions))
    else:
        output.print_table(directory_table(partitions), "There are no partitions.")


@app.command()
def cleaner(
    directories: DataDirectories,
    topic: OnlyTopics = None,
    as_json: AsJson = False,
) -> None:
    """Show how far compaction has come: the offset each partition is clean to, and what is dirty behind it."""
    partitions = _read_each(directories, topic, read_progress)
    if as_json:
        output.print_json(cleaner_documents(partitions))
    else:
        output.print_table(cleaner_table(partitions), "No partition has been compacted yet.")
