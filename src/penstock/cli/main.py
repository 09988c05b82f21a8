"""Where the `penstock` command begins.

Importing the option parser costs more than a broker needs to start, so `penstock broker start` and `penstock registry
start` with plain options are recognised here and go straight to the server. Everything else, every mistake included,
goes through the full parser.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from penstock.cli.broker_options import parse_start_arguments
from penstock.cli.errors import CliError, ExitCode, report
from penstock.cli.services.start_options import parse_registry_arguments


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = parse_start_arguments(given)
        if options is not None:
            from penstock.cli.broker_start import start_broker

            return start_broker(options)
        registry_options = parse_registry_arguments(given)
        if registry_options is not None:
            from penstock.cli.services.registry_start import start_registry

            return start_registry(registry_options)
        return _run(given)
    except KeyboardInterrupt:
        return 130
    except CliError as error:
        report(error)
        return int(error.exit_code)
    except OSError as error:  # a file that cannot be read or written, a time that ran out; anything else is our mistake
        report(CliError(_describe(error)))
        return int(ExitCode.UNREACHABLE if isinstance(error, TimeoutError) else ExitCode.FAILURE)


def _describe(error: OSError) -> str:
    """Without the number that only programmers know, where a file is named."""
    if error.filename is None or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"


def _run(arguments: list[str]) -> int:
    from penstock.cli.app import command

    try:
        command().main(args=arguments, prog_name="penstock")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
