import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Predicate;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindows;

/** Groups without windows, and tables made of them. */
final class Aggregates {
    private static final TimeWindows TEN_SECONDS = TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), Duration.ofDays(1));

    private static final Predicate<String, ObjectNode> TEN_OR_MORE = (key, value) -> Json.number(value, "n") != null && Json.number(value, "n") >= 10;

    static final Map<String, Consumer<Topics>> CASES = Map.of(
            "grouping-nulls", Aggregates::groupingNulls,
            "windowed-null-values", Aggregates::windowedNullValues,
            "aggregates", Aggregates::aggregates,
            "cogroup", Aggregates::cogroup,
            "table-tombstones", Aggregates::tombstones,
            "table-filter", Aggregates::filter,
            "table-group-by", Aggregates::groupTable,
            "stream-to-table", Aggregates::streamToTable,
            "chained", Aggregates::chained);

    private Aggregates() {
    }

    private static KTable<String, ObjectNode> counts(KTable<String, Long> counts) {
        return counts.mapValues(count -> Json.object("count", count));
    }

    private static void groupingNulls(Topics topics) {
        KStream<String, ObjectNode> in = topics.stream("in");
        topics.write("by-key", counts(in.groupByKey(Topics.GROUPED).count()));
        topics.write("by-group", in.groupBy((key, value) -> Json.text(value, "g"), Topics.GROUPED).aggregate(
                () -> Json.object("count", 0L),
                (key, value, sum) -> Json.with(
                        sum.put("g", key).put("count", Json.number(sum, "count") + 1), "total", Json.sum(Json.number(sum, "total"), Json.number(value, "n"))),
                Materialized.with(Serdes.String(), Json.SERDE)));
        topics.write("as-table", in.toTable());
    }

    private static void windowedNullValues(Topics topics) {
        KGroupedStream<String, ObjectNode> in = topics.stream("in").groupByKey(Topics.GROUPED);
        topics.writeWindows("tumbling", in.windowedBy(TEN_SECONDS).count().mapValues(count -> Json.object("count", count)));
        topics.writeWindows("session", in.windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(10), Duration.ofDays(1)))
                .count().mapValues(count -> Json.object("count", count)));
    }

    private static void aggregates(Topics topics) {
        KGroupedStream<String, ObjectNode> in = topics.stream("in").groupByKey(Topics.GROUPED);
        topics.write("counted", counts(in.count()));
        topics.write("reduced", in.reduce((one, other) -> Json.with(
                Json.object().put("s", Json.text(one, "s") + Json.text(other, "s")), "n", Json.sum(Json.number(one, "n"), Json.number(other, "n")))));
        topics.write("aggregated", in.aggregate(Json::object, (key, value, sum) -> {
            Long number = Json.number(value, "n");
            Json.with(sum, "total", Json.sum(Json.number(sum, "total"), number));
            Json.with(sum, "largest", Json.larger(Json.number(sum, "largest"), number));
            return Json.with(sum, "smallest", Json.smaller(Json.number(sum, "smallest"), number));
        }, Materialized.with(Serdes.String(), Json.SERDE)));
        topics.write("folded", in.aggregate(() -> Json.object().put("text", ""),
                (key, value, sum) -> sum.put("text", Json.text(sum, "text") + Json.text(value, "s") + ";"),
                Materialized.with(Serdes.String(), Json.SERDE)));
    }

    private static void cogroup(Topics topics) {
        CogroupedKStream<String, ObjectNode> both = topics.stream("clicks").groupByKey(Topics.GROUPED)
                .<ObjectNode>cogroup((key, value, sum) -> sum.put("clicks", Json.number(sum, "clicks") + 1))
                .cogroup(topics.stream("orders").groupByKey(Topics.GROUPED),
                        (key, value, sum) -> Json.with(sum, "spent", Json.sum(Json.number(sum, "spent"), Json.number(value, "amount"))));
        topics.write("out", both.aggregate(() -> Json.object("clicks", 0L), Materialized.with(Serdes.String(), Json.SERDE)));
        topics.writeWindows("windowed", both.windowedBy(TEN_SECONDS).aggregate(() -> Json.object("clicks", 0L), Materialized.with(Serdes.String(), Json.SERDE)));
    }

    private static void tombstones(Topics topics) {
        KTable<String, ObjectNode> in = topics.table("in");
        topics.write("copy", in);
        topics.write("mapped", in.mapValues(value -> value == null ? null : Json.object().put("w", Json.text(value, "v") + "!")));
    }

    /** What is joined has a store of its own: of a view of the same table the join would not see the row that was deleted. */
    private static void filter(Topics topics) {
        KTable<String, ObjectNode> in = topics.table("in");
        KTable<String, ObjectNode> kept = in.filter(TEN_OR_MORE, Materialized.with(Serdes.String(), Json.SERDE));
        topics.write("kept", kept);
        topics.write("others", in.filterNot(TEN_OR_MORE));
        topics.write("joined", in.join(kept, (left, right) -> Json.joined(left, right, "n")));
    }

    private static void groupTable(Topics topics) {
        KGroupedTable<String, ObjectNode> groups = topics.table("in")
                .groupBy((key, value) -> KeyValue.pair(Json.text(value, "g"), value), Topics.GROUPED);
        topics.write("counted", counts(groups.count()));
        topics.write("summed", groups.aggregate(() -> Json.object("total", 0L),
                (key, value, sum) -> sum.put("total", Json.number(sum, "total") + Json.number(value, "n")),
                (key, value, sum) -> sum.put("total", Json.number(sum, "total") - Json.number(value, "n")),
                Materialized.with(Serdes.String(), Json.SERDE)));
        topics.write("folded", groups.aggregate(() -> Json.object("squares", 0L),
                (key, value, sum) -> Json.object("squares", Json.number(sum, "squares") + square(value)),
                (key, value, sum) -> Json.number(sum, "squares").equals(square(value))
                        ? null : Json.object("squares", Json.number(sum, "squares") - square(value)),
                Materialized.with(Serdes.String(), Json.SERDE)));
    }

    private static Long square(ObjectNode value) {
        return Json.number(value, "n") * Json.number(value, "n");
    }

    private static void streamToTable(Topics topics) {
        KTable<String, ObjectNode> table = topics.stream("in").toTable(Materialized.with(Serdes.String(), Json.SERDE));
        topics.write("as-table", table);
        topics.write("joined", table.join(topics.table("other"), (left, right) -> Json.joined(left, right, "v")));
    }

    private static void chained(Topics topics) {
        KTable<String, Long> counts = topics.stream("in").groupByKey(Topics.GROUPED).count();
        KTable<String, Long> others = topics.stream("other").groupByKey(Topics.GROUPED).count();
        topics.write("joined", counts.outerJoin(others, (one, other) -> Json.with(Json.object("count", one), "count_right", other)));
        topics.write("histogram", counts.groupBy((key, count) -> KeyValue.pair(Long.toString(count), count), Grouped.with(Serdes.String(), Serdes.Long()))
                .count().mapValues(keys -> Json.object("keys", keys)));
    }
}
