"""Where the `penstock` command begins.

Importing the option parser costs more than a broker needs to start, so `penstock broker start` and `penstock registry
start` with plain options are recognised here and go straight to the server. Everything else, every mistake included,
goes through the full parser.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial

from penstock.cli.broker_options import parse_start_arguments
from penstock.cli.errors import CliError, ExitCode, UsageError, report
from penstock.cli.services.start_options import parse_registry_arguments
from penstock.core.words.failure_text import describe_os_error

_SIGNAL_AGAIN_S = 0.05
# Their starts take seconds, and begin here.
_ON_SPARK = frozenset({"pipeline", "streams", "sql"})


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _refuse_bytes(given)
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
        report(CliError("interrupted"))
        return int(ExitCode.INTERRUPTED)
    except CliError as error:
        report(error)
        return int(error.exit_code)
    except ModuleNotFoundError as error:
        report(_missing(error, given))
        return int(ExitCode.FAILURE)
    except OSError as error:  # a file that cannot be read or written, a time that ran out; anything else is our mistake
        report(CliError(describe_os_error(error)))
        return int(ExitCode.UNREACHABLE if isinstance(error, TimeoutError) else ExitCode.FAILURE)


def _refuse_bytes(given: Sequence[str]) -> None:
    """Python lets every byte of an argument or a variable in. No name or statement has such bytes, and librdkafka ends
    the process where it meets them.
    """
    variables = {name: value for name, value in os.environ.items() if name.startswith("PENSTOCK_")}
    named = [("the argument", each) for each in given]
    for name, text in (*named, *((f"the variable {name}:", value) for name, value in variables.items())):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{name} {text!a} is no UTF-8 text") from None


@contextmanager
def _interrupted_with_a_line() -> Iterator[None]:
    """SIGTERM is what Ctrl-C is, and the option parser, which makes an exit code of that, is not the last to hear."""
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    hook = sys.unraisablehook  # not always Python's own: pytest has one that finds errors
    sys.unraisablehook = partial(_repeat_signal, hook)
    try:
        yield
    except SystemExit as ended:
        if isinstance(getattr(ended.__context__, "__cause__", None), KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        sys.unraisablehook = hook


def _repeat_signal(hook: Callable[[sys.UnraisableHookArgs], object], dropped: sys.UnraisableHookArgs) -> None:
    """Python drops what is raised in a callback, as its imports have, and the command would go on as if there had been
    no signal. So the signal comes again a moment later. `hook` takes all else."""
    number = _signal_behind(dropped.exc_value)
    if number is None:
        hook(dropped)
        return
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    again = threading.Timer(_SIGNAL_AGAIN_S, signal.pthread_kill, (main_thread, number))
    again.daemon = True
    again.start()


def _signal_behind(error: BaseException | None) -> signal.Signals | None:
    """SIGTERM raises SystemExit where a prompt takes KeyboardInterrupt for the end of a question."""
    if isinstance(error, SystemExit) and error.code == ExitCode.INTERRUPTED:
        return signal.SIGTERM
    return signal.SIGINT if isinstance(error, KeyboardInterrupt) else None


def _missing(error: ModuleNotFoundError, arguments: list[str]) -> CliError:
    """Raises the error again where no extra brings the module."""
    from penstock.cli.app import COMMANDS
    from penstock.core.extras import explained

    has_name = arguments[0] in COMMANDS
    length = 0 if not has_name else 2 if COMMANDS[arguments[0]].is_group else 1
    told = explained(error, " ".join(("penstock", *arguments[:length])))
    if told is error:
        raise error
    return CliError(str(told))


def _run(arguments: list[str]) -> int:
    try:
        with _interrupted_with_a_line() if arguments and arguments[0] in _ON_SPARK else nullcontext():
            from penstock.cli.app import command

            command().main(args=arguments, prog_name="penstock")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
