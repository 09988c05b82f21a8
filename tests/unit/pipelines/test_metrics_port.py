from __future__ import annotations

import socket

import pytest

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.progress.metrics import check_port


@pytest.mark.parametrize("port", [-1, 0])
def test_no_port_is_tried_when_none_is_asked_for(port: int) -> None:
    check_port(port)


def test_a_port_is_refused_while_another_program_has_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PipelineError, match=f"there can be no metrics on port {port}: "):
            check_port(port)
    check_port(port)


def test_a_port_is_refused_when_there_is_no_such_port() -> None:
    with pytest.raises(PipelineError, match="a port is at most 65535"):
        check_port(70_000)
