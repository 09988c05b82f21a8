"""What a run of alternating rounds gathers, shows and writes into docs/benchmarks.md."""

from __future__ import annotations

import datetime
import os
import textwrap
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

from bench.contenders import APACHE_KAFKA
from bench.loads import Figures
from bench.report import describe_machine, print_table, replace_result, table_lines
from bench.rows import Comparison, Row, Samples, compare, headings_beside

Contender = TypeVar("Contender")

PAGE_COLUMNS = 116


def alternate(contenders: Sequence[Contender], number: int) -> Sequence[Contender]:
    """Each goes first in every other round."""
    return contenders if number % 2 == 0 else contenders[::-1]


class Gathering:
    """Of the contenders with these names, ours and its `peer` among them. `place` is that of the result in the page:
    its first and last line.
    """

    def __init__(
        self,
        names: Sequence[str],
        rows: Sequence[Row],
        title: str,
        place: tuple[str, str],
        peer: str = APACHE_KAFKA.name,
    ) -> None:
        self.samples: Samples = {name: defaultdict(list) for name in names}
        self._rows = rows
        self._title = title
        self._place = place
        self._peer = peer
        self._load_at_start = os.getloadavg()[0]

    def begin(self) -> None:
        print(f"load average at the start: {self._load_at_start:.2f}", flush=True)

    def keep(self, name: str, figures: Figures, number: int | None = None) -> None:
        for key, value in figures.items():
            self.samples[name][key].append(value)
        when = "" if number is None else f"round {number + 1}: "
        shown = "  ".join(f"{key} {value:,.2f}" for key, value in figures.items())
        print(f"{name}: {when}{shown}", flush=True)

    def comparisons(self) -> list[Comparison]:
        return compare(self.samples, self._rows, self._peer)

    def show(self) -> None:
        print_table(self.comparisons(), self._title, headings_beside(self._peer))

    def write(self, rounds: int) -> None:
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        how = f"medians of {rounds} alternating rounds, load average {self._load_at_start:.1f} before the first"
        intro = textwrap.fill(f"Measured on {today}, {how}: {describe_machine()}.", PAGE_COLUMNS)
        lines = [intro, "", *table_lines(self.comparisons(), headings_beside(self._peer))]
        replace_result("\n".join(lines), *self._place)
