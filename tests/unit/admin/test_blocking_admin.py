"""The face for threads is the whole of the one for asyncio."""

from __future__ import annotations

import gc
import inspect
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.admin import Admin, AsyncAdmin, connect
from penstock.admin.async_commits import AsyncCommits
from penstock.admin.async_nodes import AsyncNodes
from penstock.admin.async_security import AsyncSecurity
from penstock.admin.async_transactions import AsyncTransactions
from penstock.admin.blocking_admin import Commits, Nodes, Security, Transactions
from tests.forking import in_a_fork

FACES = [
    (AsyncAdmin, Admin),
    (AsyncCommits, Commits),
    (AsyncNodes, Nodes),
    (AsyncSecurity, Security),
    (AsyncTransactions, Transactions),
]


@pytest.mark.parametrize(("core", "face"), FACES)
def test_every_operation_is_there_for_threads_when_there_is_one_for_asyncio(core: type, face: type) -> None:
    coroutines = {
        name for name, value in vars(core).items() if inspect.iscoroutinefunction(value) and not name.startswith("_")
    }
    assert coroutines
    assert coroutines <= vars(face).keys()
    for name in coroutines - {"close"}:
        assert inspect.getdoc(getattr(face, name)) == inspect.getdoc(getattr(core, name))


def test_every_theme_is_there_for_threads_when_there_is_one_for_asyncio() -> None:
    with connect("127.0.0.1:9092") as admin:
        themes = {name for name, value in vars(admin.core).items() if type(value) in dict(FACES)}
        assert {type(getattr(admin.core, name)) for name in themes} == dict(FACES).keys() - {AsyncAdmin}
        for name in themes:
            assert type(getattr(admin, name)) is dict(FACES)[type(getattr(admin.core, name))]


def test_error_names_the_address_at_once_when_no_broker_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with connect(f"127.0.0.1:{port}") as admin, pytest.raises(ConnectionError, match=rf"127\.0\.0\.1:{port}"):
        admin.topics()


def test_a_second_close_does_nothing() -> None:
    with connect("127.0.0.1:9092") as admin:
        admin.close()


def test_waiting_thread_gets_an_error_when_the_client_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        admin = connect(f"127.0.0.1:{silent.getsockname()[1]}", timeout_s=60)
        waiting = pool.submit(admin.topics)
        with silent.accept()[0] as connection:
            assert connection.recv(1)  # of the request, which is never answered
            admin.close()
            with pytest.raises(ConnectionError, match="closed"):
                waiting.result(20)
            with pytest.raises(ConnectionError, match="closed"):
                admin.topics()


def test_server_is_refused_when_it_is_no_address() -> None:
    with pytest.raises(ValueError, match="not the address"):
        connect("host:port")


def test_child_is_told_to_connect_anew_when_the_client_is_of_its_parent() -> None:
    admin = connect("127.0.0.1:1")

    def use_it() -> bool:
        try:
            admin.topics()
        except ConnectionError as error:
            admin.close()
            return "forked" in str(error)
        return False

    assert in_a_fork(use_it)
    admin.close()


def test_thread_and_connection_end_when_nobody_has_the_client_any_more() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        silent.settimeout(20)
        admin = connect(f"127.0.0.1:{silent.getsockname()[1]}", timeout_s=1)
        waiting = pool.submit(admin.topics)
        connection, _ = silent.accept()
        with connection:
            with pytest.raises(OSError, match="no answer"):
                waiting.result(20)
            thread = next(each for each in threading.enumerate() if each is admin._thread._thread)
            del admin, waiting
            gc.collect()
            thread.join(20)
            assert not thread.is_alive()
