"""SQL aggregates that see only the rows of one side of a cogroup: each call of an aggregate function gets a filter.

only_where("sum(amount) / count(*)", "_side = 1")
== "sum(amount) FILTER (WHERE _side = 1) / count(*) FILTER (WHERE _side = 1)"
"""

from __future__ import annotations

import re

# Spark 4.3's aggregate functions, as its registry groups them, without those that a stream cannot have (grouping).
_NAMES = """
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine
    array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list
    collect_set collect_union corr count count_if count_min_sketch covar_pop covar_samp every first first_value
    histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
    kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis last last_value listagg max max_by mean
    median min min_by mode percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy regr_count
    regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness some std stddev stddev_pop stddev_samp
    string_agg sum theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum
    tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer
    tuple_union_agg_double tuple_union_agg_integer var_pop var_samp variance
"""
AGGREGATES = frozenset(_NAMES.split())
_TOKENS = re.compile(
    r"""
    '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `(?:[^`]|``)*`   # texts and quoted names
    | --[^\n]* | /\*.*?\*/ | \s+                                     # what says nothing
    | [A-Za-z_]\w* | .
    """,
    re.VERBOSE | re.DOTALL,
)


def only_where(sql: str, condition: str) -> str:
    tokens = _TOKENS.findall(sql)
    made: list[str] = []
    at = 0
    while at < len(tokens):
        opening = _next_word(tokens, at + 1)
        if tokens[at].lower() in AGGREGATES and _is(tokens, opening, "("):
            end = _call_end(tokens, opening)
            made += tokens[at:end]
            at = _add_filter(tokens, end, condition, made)
        else:
            made.append(tokens[at])
            at += 1
    return "".join(made)


def _add_filter(tokens: list[str], at: int, condition: str, made: list[str]) -> int:
    """A filter behind the call, or a further condition in the one that is there. Where to go on."""
    word = _next_word(tokens, at)
    opening = _next_word(tokens, word + 1)
    where = _next_word(tokens, opening + 1)
    if _is(tokens, word, "filter") and _is(tokens, opening, "(") and _is(tokens, where, "where"):
        end = _closing(tokens, opening)
        inside = "".join(tokens[where + 1 : end]).strip()
        made.append(f" FILTER (WHERE {condition} AND ({inside}))")
        return end + 1
    made.append(f" FILTER (WHERE {condition})")
    return at


def _call_end(tokens: list[str], opening: int) -> int:
    """Behind the call, and behind its WITHIN GROUP (ORDER BY ...)."""
    end = _closing(tokens, opening) + 1
    within = _next_word(tokens, end)
    group = _next_word(tokens, within + 1)
    if _is(tokens, within, "within") and _is(tokens, group, "group"):
        end = _closing(tokens, _next_word(tokens, group + 1)) + 1
    return end


def _closing(tokens: list[str], opening: int) -> int:
    depth = 0
    for at in range(opening, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[at], 0)
        if depth == 0:
            return at
    return len(tokens)  # Spark reports the fault in it


def _next_word(tokens: list[str], at: int) -> int:
    while at < len(tokens) and (tokens[at].isspace() or tokens[at].startswith(("--", "/*"))):
        at += 1
    return at


def _is(tokens: list[str], at: int, wanted: str) -> bool:
    return at < len(tokens) and tokens[at].lower() == wanted
