"""`--set name=value`: settings of a pipeline given as text. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import Settings, Watermark

_CHOICES = {"engine": ("python", "jvm")}
_WHOLE_NUMBERS = frozenset({"parallelism", "max_records_per_batch", "metrics_port"})
_FLAGS = {"true": True, "false": False}
_FLAG_NAMES = frozenset({"publish_runs"})
_MAPPINGS = ("kafka", "registry", "spark")
_NAMES = tuple(field.name for field in fields(Settings) if field.name not in _MAPPINGS)


def is_setting(name: str) -> bool:
    return name in _NAMES or name.split(".", 1)[0] in _MAPPINGS


def apply_settings(settings: Settings, given: Mapping[str, str]) -> Settings:
    """`kafka.<key>`, `registry.<key>` and `spark.<key>` go to the clients and to the Spark session; every other name is
    a setting."""
    changes: dict[str, Any] = {}
    for name, text in given.items():
        prefix, _, key = name.partition(".")
        if prefix in _MAPPINGS and key:
            merged = changes.get(prefix, getattr(settings, prefix))
            changes[prefix] = {**merged, (name if prefix == "spark" else key): text}
        elif name in _NAMES:
            changes[name] = _parse(name, text)
        else:
            raise unknown_setting(name, ())
    return replace(settings, **changes)


def unknown_setting(name: str, parameters: tuple[str, ...]) -> PipelineError:
    known = (*_NAMES, *parameters)
    near = difflib.get_close_matches(name, known, n=1)
    meant = f"Did you mean {near[0]}? " if near else ""
    return PipelineError(
        f"there is no setting {name!r}",
        f"{meant}There are {', '.join(known)}, and kafka.*, registry.* and spark.* for clients and Spark.",
    )


def _parse(name: str, text: str) -> Any:
    if name in _CHOICES and text not in _CHOICES[name]:
        raise PipelineError(f"{name} is one of {', '.join(_CHOICES[name])}, not {text!r}")
    if name in _FLAG_NAMES:
        if text.lower() not in _FLAGS:
            raise PipelineError(f"{name} is true or false, not {text!r}")
        return _FLAGS[text.lower()]
    if name in _WHOLE_NUMBERS:
        try:
            return int(text)
        except ValueError:
            raise PipelineError(f"{name} is a whole number, not {text!r}") from None
    if name == "watermark":
        column, _, delay = text.partition(":")
        if not column or not delay:
            raise PipelineError(f"watermark is COLUMN:DELAY, such as event_time:10 minutes, not {text!r}")
        return Watermark(column, delay)
    return text
