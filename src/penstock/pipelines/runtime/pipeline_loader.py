"""Finds a pipeline, or what else is run like one, by the name given on the command line: MODULE[:NAME], or a file."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from penstock.pipelines.errors import PipelineError, missing_module
from penstock.pipelines.pipeline import Pipeline
from penstock.pipelines.runtime.settings import apply_settings, is_setting, unknown_setting

_Kind = TypeVar("_Kind")
_TRUE = {"true", "yes", "1", "on"}
_FALSE = {"false", "no", "0", "off"}
_WHO_RUNS = "`penstock pipeline` runs a Pipeline, `penstock streams` a Streams."


def load_pipeline(reference: str, given: Mapping[str, str]) -> Pipeline:
    pipeline, settings = load_defined(reference, given, Pipeline, "pipeline")
    return replace(pipeline, settings=apply_settings(pipeline.settings, settings))


def load_defined(
    reference: str, given: Mapping[str, str], kind: type[_Kind], what: str
) -> tuple[_Kind, dict[str, str]]:
    """NAME is of that kind, or a function that returns one; what is given and is not a setting fills its parameters.
    The settings that were given are returned as they are. `what` is the kind's name for people."""
    module_name, _, name = reference.partition(":")
    defined = find_defined(import_module(module_name), kind)
    if not name and len(defined) == 1:
        name = next(iter(defined))
    if name not in defined:
        asked = f"no {what} {name!r}" if name else f"{len(defined)} {what}s" if defined else f"no {what}"
        wanted = f"A {kind.__name__} needs a name there, or a function -> {kind.__name__} returns it. {_WHO_RUNS}"
        hint = f"It has: {', '.join(defined)}. Say {module_name}:NAME." if defined else wanted
        raise PipelineError(f"{module_name} has {asked}", hint)
    target = defined[name]
    settings = {key: text for key, text in given.items() if is_setting(key)}
    rest = {key: text for key, text in given.items() if key not in settings}
    if isinstance(target, kind):
        if rest:
            raise unknown_setting(next(iter(rest)), ())
        return target, settings
    assert callable(target)
    try:
        made = target(**_arguments(target, rest))
    except ModuleNotFoundError as error:
        raise missing_module(error, reference) from error
    if not isinstance(made, kind):
        raise PipelineError(f"{reference} returned a {type(made).__name__}, not a {kind.__name__}")
    return made, settings


def find_pipelines(module: ModuleType) -> dict[str, Pipeline | Callable[..., Any]]:
    return find_defined(module, Pipeline)


def find_defined(module: ModuleType, kind: type[_Kind]) -> dict[str, _Kind | Callable[..., Any]]:
    """What the module defines: values of the kind, and functions annotated as returning one."""
    defined: dict[str, _Kind | Callable[..., Any]] = {}
    for name, value in vars(module).items():
        is_maker = inspect.isfunction(value) and value.__module__ == module.__name__ and _returns(value, kind)
        if not name.startswith("_") and (isinstance(value, kind) or is_maker):
            defined[name] = value
    return defined


def import_module(name: str) -> ModuleType:
    """A dotted name, or the path of a file; the working directory is searched first, as by `python -m`."""
    if name.endswith(".py") or os.sep in name:
        return _import_file(Path(name))
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return _import(name)


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise PipelineError(f"{path} is a directory" if path.is_dir() else f"there is no file {path}")
    # Spark's workers import what a step refers to by the module's name, so the file's directory must be searched too.
    sys.path.insert(0, str(path.parent.resolve()))
    module = _import(path.stem)
    if Path(module.__file__ or "").resolve() != path.resolve():
        other = module.__file__ or "a part of Python"
        raise PipelineError(f"{path} has the name of another module, {other}", "Give the file a name of its own.")
    return module


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise PipelineError(f"there is no module {name!r}", "Give a module or the path of a .py file.") from None
        raise missing_module(error, name) from error
    except PipelineError:  # raised by the module's own code; its text has the remedy
        raise
    except Exception as error:  # the author's own, and whatever it may be
        raise PipelineError(f"{name} cannot be loaded: {type(error).__name__}: {error}", _place(error)) from error


def _place(error: Exception) -> str:
    """The last line of the author's that was run, as far as it is known."""
    if isinstance(error, SyntaxError):
        return ""  # its own text has the place
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith("<") and "importlib" not in frame.filename]
    ours = str(Path(__file__).parents[2])
    told = [frame for frame in own if not frame.filename.startswith(ours)]
    return f"In {told[-1].filename}, line {told[-1].lineno}: {told[-1].line}" if told else ""


def _returns(function: Callable[..., Any], kind: type) -> bool:
    annotation = inspect.signature(function).return_annotation
    return annotation is kind or (isinstance(annotation, str) and annotation.split(".")[-1] == kind.__name__)


def _arguments(function: Callable[..., Any], given: Mapping[str, str]) -> dict[str, Any]:
    parameters = inspect.signature(function, eval_str=True).parameters
    for name in given:
        if name not in parameters:
            raise unknown_setting(name, tuple(parameters))
    missing = [
        name for name, parameter in parameters.items() if parameter.default is parameter.empty and name not in given
    ]
    if missing:
        raise PipelineError(f"the pipeline needs {', '.join(missing)}", f"Say --set {missing[0]}=...")
    return {name: _convert(name, text, parameters[name].annotation) for name, text in given.items()}


def _convert(name: str, text: str, kind: Any) -> Any:
    if kind is bool:
        if text.lower() not in _TRUE | _FALSE:
            raise PipelineError(f"{name} is true or false, not {text!r}")
        return text.lower() in _TRUE
    if kind in (int, float, Path):
        try:
            return kind(text)
        except ValueError:
            raise PipelineError(f"{name} is a number, not {text!r}") from None
    return text
