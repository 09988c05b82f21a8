"""`penstock cluster status`: a look at the cluster, once or again and again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.admin.blocking_admin import Admin
from penstock.admin.state.cluster import ClusterState
from penstock.cli import output
from penstock.cli.display import Display
from penstock.cli.errors import CliError, ExitCode
from penstock.cli.output import Table
from penstock.cli.views.status import (
    StatusView,
    finding_lines,
    head,
    hidden_rows,
    lag_table,
    lags_of_the_present,
    move_table,
    status_brokers,
    status_document,
)
from penstock.core.words.visible_text import harmless
from penstock.health.condition import judge
from penstock.health.findings import find, is_healthy
from penstock.health.measurements import LOOK
from penstock.protocol.errors import ApiError

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text


def look(admin: Admin, before: ClusterState | None = None) -> StatusView:
    """Raises CliError where no broker answers."""
    try:
        condition = judge(admin.read_wish(LOOK), before)
    except (OSError, ApiError) as error:
        hint = "Check --bootstrap-server and that a broker runs; its log may say why it does not answer."
        raise CliError(str(error), hint, ExitCode.UNREACHABLE) from error
    return StatusView(condition, find(condition))


def show_status(admin: Admin, *, as_json: bool) -> ExitCode:
    view = look(admin)
    (_print_document if as_json else _print)(view)
    return ExitCode.SUCCESS if is_healthy(view.findings) else ExitCode.FAILURE


def watch_status(admin: Admin, *, as_json: bool, interval_s: float) -> None:
    """Until it is interrupted. A cluster that does not answer is shown as such, and looked at again."""
    with Display(_render, _print_document if as_json else _print) as display:
        before: ClusterState | None = None
        while True:
            began = time.monotonic()
            try:
                view = look(admin, before)
                display.show(view)
                before = view.condition.observed
            except CliError as error:
                display.tell(f"{error.message}\n")
            admin.run(admin.core.brokers.hang_up())  # the next look is to see the certificates of then
            time.sleep(max(0.0, interval_s - (time.monotonic() - began)))


def _lists(view: StatusView) -> list[tuple[Table, str]]:
    condition = view.condition
    lags, moves = lags_of_the_present(condition), condition.moves
    lists = [(lag_table(lags), len(lags)), (move_table(moves), len(moves))]
    return [(table, hidden_rows(count)) for table, count in lists if table.rows]


def _print(view: StatusView) -> None:
    output.print_fields(head(view))
    output.say("")
    output.print_table(status_brokers(view))
    for paragraph in finding_lines(view.findings):
        output.say("")
        output.say("\n".join(paragraph))
    for table, hidden in _lists(view):
        output.say("")
        output.print_table(table)
        if hidden:
            output.say(hidden)
    output.say("")


def _print_document(view: StatusView) -> None:
    output.print_json(status_document(view))


def _text(text: str) -> Text:
    from rich.text import Text

    return Text(harmless(text))


def _render(view: StatusView, is_last: bool) -> Group:
    from rich.console import Group, RenderableType
    from rich.text import Text

    fields = head(view)
    width = max(len(name) for name, _ in fields) + 2
    parts: list[RenderableType] = [_text("\n".join(f"{name:<{width}}{value}" for name, value in fields) + "\n")]
    parts.append(output.render_rich(status_brokers(view)))
    # A list that does not fit the screen is cut off at its end, so what is wrong comes first.
    parts += [_text("\n" + "\n".join(paragraph)) for paragraph in finding_lines(view.findings)]
    for table, hidden in _lists(view):
        parts += [Text(""), output.render_rich(table), *([Text(hidden)] if hidden else [])]
    parts.append(Text("" if is_last else "\nCtrl-C ends this."))
    return Group(*parts)
