import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.Initializer;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Reducer;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;

/** Windows of all kinds. */
final class Windows {
    private static final Duration SIZE = Duration.ofSeconds(10);
    private static final Duration DAY = Duration.ofDays(1);
    private static final Duration GRACE = Duration.ofSeconds(5);
    private static final Initializer<ObjectNode> NOTHING = () -> Json.object("count", 0L);
    // A new object each: sliding windows hand one to several windows.
    private static final Aggregator<String, ObjectNode, ObjectNode> COUNT_AND_SUM = (key, value, sum) -> Json.with(
            sum.deepCopy().put("count", Json.number(sum, "count") + 1), "total", Json.sum(Json.number(sum, "total"), Json.number(value, "n")));
    private static final Reducer<ObjectNode> ADD = (one, other) -> Json.object("n", Json.sum(Json.number(one, "n"), Json.number(other, "n")));

    static final Map<String, Consumer<Topics>> CASES = Map.ofEntries(
            Map.entry("tumbling", Windows::tumbling),
            Map.entry("hopping", topics -> counted(topics, in(topics).windowedBy(TimeWindows.ofSizeAndGrace(SIZE, DAY).advanceBy(Duration.ofSeconds(4))))),
            Map.entry("sliding", topics -> counted(topics, in(topics).windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(SIZE, DAY)))),
            Map.entry("session", Windows::session),
            Map.entry("tumbling-grace", topics -> updatesAndFinal(topics, in(topics).windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE)))),
            Map.entry("idle-partition", topics -> updatesAndFinal(topics, in(topics).windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE)))),
            Map.entry("hopping-grace", topics -> updatesAndFinal(topics, in(topics).windowedBy(
                    TimeWindows.ofSizeAndGrace(SIZE, Duration.ofSeconds(2)).advanceBy(Duration.ofSeconds(5))))),
            Map.entry("sliding-grace", topics -> updatesAndFinal(topics, in(topics).windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(SIZE, GRACE)))),
            Map.entry("session-grace", Windows::finalSessions),
            Map.entry("session-grace-exact", Windows::finalSessions),
            Map.entry("session-late-inside", Windows::lateSessions));

    private Windows() {
    }

    private static KGroupedStream<String, ObjectNode> in(Topics topics) {
        return topics.stream("in").groupByKey(Topics.GROUPED);
    }

    private static void counted(Topics topics, TimeWindowedKStream<String, ObjectNode> windows) {
        topics.writeWindows("counted", windows.aggregate(NOTHING, COUNT_AND_SUM, Materialized.with(Serdes.String(), Json.SERDE)));
    }

    private static void tumbling(Topics topics) {
        TimeWindowedKStream<String, ObjectNode> windows = in(topics).windowedBy(TimeWindows.ofSizeAndGrace(SIZE, DAY));
        counted(topics, windows);
        topics.writeWindows("reduced", windows.reduce(ADD));
    }

    private static void session(Topics topics) {
        var windows = in(topics).windowedBy(SessionWindows.ofInactivityGapAndGrace(SIZE, DAY));
        topics.writeWindows("counted", windows.aggregate(NOTHING, COUNT_AND_SUM, (key, one, other) -> Json.with(
                Json.object("count", Json.sum(Json.number(one, "count"), Json.number(other, "count"))),
                "total", Json.sum(Json.number(one, "total"), Json.number(other, "total"))), Materialized.with(Serdes.String(), Json.SERDE)));
        topics.writeWindows("reduced", windows.reduce(ADD));
    }

    private static void updatesAndFinal(Topics topics, TimeWindowedKStream<String, ObjectNode> windows) {
        KTable<Windowed<String>, Long> counts = windows.count();
        topics.writeWindows("updates", counts.mapValues(count -> Json.object("count", count)));
        topics.writeWindows("final", onlyFinal(counts));
    }

    private static void finalSessions(Topics topics) {
        topics.writeWindows("final", onlyFinal(in(topics).windowedBy(SessionWindows.ofInactivityGapAndGrace(SIZE, GRACE)).count()));
    }

    private static void lateSessions(Topics topics) {
        finalSessions(topics);
        var reduced = in(topics).windowedBy(SessionWindows.ofInactivityGapAndGrace(SIZE, GRACE)).reduce(ADD);
        topics.writeWindows("reduced", reduced.suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded())));
        topics.writeWindows("updates", reduced);
    }

    private static KTable<Windowed<String>, ObjectNode> onlyFinal(KTable<Windowed<String>, Long> counts) {
        return counts.suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded())).mapValues(count -> Json.object("count", count));
    }
}
