import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;

/** Joins of streams and tables. */
final class Joins {
    private static final ValueJoiner<ObjectNode, ObjectNode, ObjectNode> BOTH = (left, right) -> Json.joined(left, right, "v");
    private static final StreamJoined<String, ObjectNode, ObjectNode> STREAMS = StreamJoined.with(Serdes.String(), Json.SERDE, Json.SERDE);
    private static final Joined<String, ObjectNode, ObjectNode> WITH_TABLE = Joined.with(Serdes.String(), Json.SERDE, Json.SERDE);

    static final Map<String, Consumer<Topics>> CASES = Map.ofEntries(
            Map.entry("stream-stream-join", topics -> streams(topics, JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofSeconds(15)))),
            Map.entry("stream-stream-join-bounds", topics -> streams(topics, JoinWindows
                    .ofTimeDifferenceAndGrace(Duration.ofSeconds(10), Duration.ofDays(1)).before(Duration.ofSeconds(5)))),
            Map.entry("stream-stream-join-nulls", topics -> streams(topics, JoinWindows
                    .ofTimeDifferenceAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(1)))),
            Map.entry("stream-stream-join-too-late", topics -> streams(topics, JoinWindows
                    .ofTimeDifferenceAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(5)))),
            Map.entry("stream-stream-join-late", topics -> streams(topics, JoinWindows
                    .ofTimeDifferenceAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(5)))),
            Map.entry("join-then-window", Joins::streamsThenWindow),
            Map.entry("stream-table-join", Joins::streamWithTable),
            Map.entry("stream-table-join-order", Joins::streamWithTable),
            Map.entry("stream-global-table-join", Joins::streamWithGlobalTable),
            Map.entry("table-join-windowed-count", Joins::viewsByRegion),
            Map.entry("table-table-join", Joins::tables),
            Map.entry("foreign-key-join", Joins::byForeignKey),
            Map.entry("foreign-key-join-many", Joins::byForeignKey));

    private Joins() {
    }

    private static void streams(Topics topics, JoinWindows window) {
        KStream<String, ObjectNode> left = topics.stream("left");
        KStream<String, ObjectNode> right = topics.stream("right");
        topics.write("inner", left.join(right, BOTH, window, STREAMS));
        topics.write("left-join", left.leftJoin(right, BOTH, window, STREAMS));
        topics.write("outer", left.outerJoin(right, BOTH, window, STREAMS));
    }

    private static void streamsThenWindow(Topics topics) {
        JoinWindows window = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(5), Duration.ofMinutes(1));
        topics.writeWindows("out", topics.stream("left").join(topics.stream("right"), BOTH, window, STREAMS)
                .groupByKey(Topics.GROUPED)
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), Duration.ofMinutes(1)))
                .count()
                .mapValues(count -> Json.object("count", count)));
    }

    private static void streamWithTable(Topics topics) {
        KStream<String, ObjectNode> left = topics.stream("left");
        KTable<String, ObjectNode> right = topics.table("right");
        topics.write("inner", left.join(right, BOTH, WITH_TABLE));
        topics.write("left-join", left.leftJoin(right, BOTH, WITH_TABLE));
    }

    private static void streamWithGlobalTable(Topics topics) {
        KStream<String, ObjectNode> left = topics.stream("left");
        GlobalKTable<String, ObjectNode> right = topics.global("right");
        topics.write("inner", left.join(right, (key, value) -> Json.text(value, "ref"), BOTH));
        topics.write("left-join", left.leftJoin(right, (key, value) -> Json.text(value, "ref"), BOTH));
    }

    private static void viewsByRegion(Topics topics) {
        KTable<String, ObjectNode> users = topics.table("users");
        topics.writeWindows("out", topics.stream("views").join(users, (view, user) -> user, WITH_TABLE)
                .groupBy((key, user) -> Json.text(user, "region"), Topics.GROUPED)
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), Duration.ofDays(1)))
                .count()
                .mapValues(count -> Json.object("count", count)));
    }

    private static void tables(Topics topics) {
        KTable<String, ObjectNode> left = topics.table("left");
        KTable<String, ObjectNode> right = topics.table("right");
        topics.write("inner", left.join(right, BOTH));
        topics.write("left-join", left.leftJoin(right, BOTH));
        topics.write("outer", left.outerJoin(right, BOTH));
    }

    private static void byForeignKey(Topics topics) {
        KTable<String, ObjectNode> left = topics.table("left");
        KTable<String, ObjectNode> right = topics.table("right");
        topics.write("inner", left.join(right, value -> Json.text(value, "ref"), BOTH, Materialized.with(Serdes.String(), Json.SERDE)));
        topics.write("left-join", left.leftJoin(right, value -> Json.text(value, "ref"), BOTH, Materialized.with(Serdes.String(), Json.SERDE)));
    }
}
