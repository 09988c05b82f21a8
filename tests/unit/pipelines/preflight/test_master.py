"""Masters of Spark that are refused before Spark starts."""

from __future__ import annotations

import pytest

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.preflight.master import check_master


def refuse(host: str, port: int) -> None:
    raise ConnectionRefusedError(111, "Connection refused")


def accept(host: str, port: int) -> None:
    pass


@pytest.mark.parametrize(
    "master",
    ["", "local", "local[1]", "local[*]", "local[*,4]", "local[2, 4]", "local-cluster[2,1,1024]"],
)
def test_a_master_is_taken_when_spark_takes_it(master: str) -> None:
    check_master(master, {}, refuse)


@pytest.mark.parametrize(
    ("master", "told"),
    [
        ("lcoal", "there is no Spark master 'lcoal'"),
        ("local[]", "there is no Spark master 'local[]'"),
        ("local[2", "there is no Spark master 'local[2'"),
        ("mesos://a:5050", "there is no Spark master 'mesos://a:5050'"),
        ("spark:a:7077", "there is no Spark master 'spark:a:7077'"),
        ("spark://a", "'a' in the Spark master 'spark://a' is no HOST:PORT"),
        ("spark://a:99999", "'a:99999' in the Spark master 'spark://a:99999' is no HOST:PORT"),
        (
            "spark://a:1,b:2",
            "no Spark master answers at a:1 (Connection refused), b:2 (Connection refused)",
        ),
        ("k8s://https://a:6443", "no Kubernetes API server answers at a:6443 (Connection refused)"),
        ("k8s://a", "no Kubernetes API server answers at a:443 (Connection refused)"),
        ("k8s://http://a", "no Kubernetes API server answers at a:80 (Connection refused)"),
        ("k8s://ftp://a", "'ftp://a' in the Spark master 'k8s://ftp://a' is no address"),
        ("k8s://a:99999", "'a:99999' in the Spark master 'k8s://a:99999' is no address"),
        (
            "yarn",
            "the master yarn needs Hadoop's configuration, and neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set",
        ),
    ],
)
def test_a_master_is_refused_when_it_cannot_work(master: str, told: str) -> None:
    with pytest.raises(PipelineError) as refused:
        check_master(master, {}, refuse)
    assert refused.value.message == told
    assert refused.value.hint


def test_a_master_is_taken_when_one_of_several_answers_or_hadoop_is_known() -> None:
    def second(host: str, port: int) -> None:
        if host == "a":
            refuse(host, port)

    check_master("spark://a:1,b:2", {}, second)
    check_master("yarn", {"YARN_CONF_DIR": "/etc/hadoop"}, accept)


def test_kubernetes_is_not_looked_for_when_there_is_a_proxy_on_the_way() -> None:
    check_master("k8s://https://a:6443", {"HTTPS_PROXY": "http://proxy:3128"}, refuse)
    check_master("k8s://https://a:6443", {}, accept)
