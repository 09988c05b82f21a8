"""What failed, in words for the one who asked."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from penstock.pipelines.errors import SqlError, TableError
from penstock.pipelines.source.cluster import ClusterError
from penstock.pipelines.sql.refusals import missing_table, refusal_of

_TASK_FAILED = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/pyspark/worker.py", line 1830, in main
    process()
  File "/x/penstock/pipelines/tables/rows.py", line 77, in decode
    raise TableError(...)
penstock.pipelines.errors.TableError: orders-0, offset 17: not JSON: unexpected end

	at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1)
	at java.base/java.lang.Thread.run(Thread.java:840)

Driver stacktrace:
"""


def _analysis(condition: str, **parameters: str) -> AnalysisException:
    return AnalysisException(errorClass=condition, messageParameters=parameters, message=f"[{condition}] wrong")


def test_the_worker_s_message_is_told_when_a_task_failed() -> None:
    refused = refusal_of(RuntimeError(_TASK_FAILED))

    assert refused.message == "orders-0, offset 17: not JSON: unexpected end"


def test_near_names_are_told_when_a_topic_is_missing() -> None:
    error = _analysis("TABLE_OR_VIEW_NOT_FOUND", relationName="`ordrs`")

    refused = refusal_of(error, topics=lambda: ["clients", "orders"])

    assert missing_table(error) == "ordrs"
    assert refused.message.startswith("there is no topic, table or view ordrs")
    assert refused.hint == "there is orders"


def test_backticks_are_told_when_a_topic_with_a_dot_is_written_without() -> None:
    error = _analysis("TABLE_OR_VIEW_NOT_FOUND", relationName="`my`.`orders`")

    refused = refusal_of(error, topics=lambda: ["my.orders"])

    assert missing_table(error) is None
    assert (refused.message, refused.hint) == (
        "my.orders is a topic, and one name: write it in backticks",
        "FROM `my.orders`",
    )


def test_the_tables_that_have_it_are_told_when_a_column_is_missing() -> None:
    error = _analysis("UNRESOLVED_COLUMN.WITH_SUGGESTION", objectName="`o`.`custmer`", proposal="`o`.`id`")

    refused = refusal_of(error, columns={"orders": ["id", "customer"], "clients": ["name", "customer_id"]})

    assert refused.message == "there is no column o.custmer"
    assert refused.hint == "there is customer of orders and customer_id of clients"


def test_what_spark_proposes_is_told_when_no_table_has_a_near_name() -> None:
    error = _analysis("UNRESOLVED_COLUMN.WITH_SUGGESTION", objectName="`qqqq`", proposal="`orders`.`id`, `x`")

    assert refusal_of(error).hint == "there is orders.id and x"


@pytest.mark.parametrize(
    "error",
    [
        ClusterError("looking up offsets failed after 1 tries: Broker: Topic authorization failed. Check ..."),
        TableError("orders: TOPIC_AUTHORIZATION_FAILED"),
        RuntimeError(_TASK_FAILED.replace("not JSON: unexpected end", "Topic authorization failed")),
    ],
)
def test_the_right_is_told_when_brokers_refuse_a_topic(error: Exception) -> None:
    refused = refusal_of(error)

    assert "Read and Describe on the topic" in refused.message
    assert "penstock acls add" in refused.hint


def test_an_error_for_people_stays_as_it_is() -> None:
    error = SqlError("no", "do")

    assert refusal_of(error) is error


def test_position_and_no_decoration_are_told_when_a_statement_does_not_parse() -> None:
    said = "\n[PARSE_SYNTAX_ERROR] Syntax error at or near '$'. SQLSTATE: 42601 (line 1, pos 20)\n\n== SQL ==\nselect"

    assert refusal_of(RuntimeError(said)).message == "Syntax error at or near '$'. (line 1, column 21)"


def test_only_the_sentence_is_told_when_java_goes_on_with_its_stack() -> None:
    said = "java.lang.IllegalStateException: out of disk\n\tat org.apache.spark.Foo.bar(Foo.scala:1)\n\tat x.y"

    assert refusal_of(RuntimeError(said)).message == "out of disk"
