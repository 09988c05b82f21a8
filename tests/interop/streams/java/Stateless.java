import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.TimeWindows;

/** Operators without state, and a topic in between. */
final class Stateless {
    static final Map<String, Consumer<Topics>> CASES = Map.of(
            "stateless", Stateless::stateless,
            "stateless-null-values", Stateless::nullValues,
            "several-topics", Stateless::severalTopics,
            "topic-pattern", Stateless::topicPattern,
            "chosen-topic", Stateless::chosenTopic,
            "repartition", Stateless::repartition);

    private Stateless() {
    }

    private static void stateless(Topics topics) {
        KStream<String, ObjectNode> in = topics.stream("in");
        topics.write("filtered", in.filter((key, value) -> Json.number(value, "n") != null && Json.number(value, "n") > 2));
        topics.write("mapped", in.mapValues(value -> Json.number(value, "n") == null
                ? value : value.deepCopy().put("double", Json.number(value, "n") * 2)));
        topics.write("words", in.flatMapValues(value -> Json.text(value, "text") == null
                ? List.of() : List.of(Json.text(value, "text").split(" "))).mapValues(word -> Json.object().put("word", word)));
        topics.write("rekeyed", in.selectKey((key, value) -> Json.text(value, "text")));
        topics.write("merged", in.merge(topics.stream("other")));
        in.split()
                .branch((key, value) -> Json.number(value, "n") != null && Json.number(value, "n") < 3,
                        Branched.withConsumer(rows -> topics.write("small", rows)))
                .branch((key, value) -> Json.number(value, "n") != null && Json.number(value, "n") % 2 == 0,
                        Branched.withConsumer(rows -> topics.write("even", rows)))
                .defaultBranch(Branched.withConsumer(rows -> topics.write("rest", rows)));
    }

    private static void nullValues(Topics topics) {
        KStream<String, ObjectNode> in = topics.stream("in");
        topics.write("copy", in);
        topics.write("merged", in.merge(topics.stream("other")));
    }

    private static void severalTopics(Topics topics) {
        KStream<String, ObjectNode> all = topics.streams("one", "two", "three");
        topics.write("copy", all);
        topics.write("counted", all.groupByKey(Topics.GROUPED).count().mapValues(count -> Json.object("count", count)).toStream());
    }

    private static void topicPattern(Topics topics) {
        KStream<String, ObjectNode> all = topics.pattern("in-.*");
        topics.write("copy", all);
        topics.write("counted", all.merge(topics.stream("other")).groupByKey(Topics.GROUPED).count().mapValues(count -> Json.object("count", count)).toStream());
    }

    private static void chosenTopic(Topics topics) {
        topics.stream("in").to((key, value, context) -> {
            Long number = value == null ? null : Json.number(value, "n");
            return Topics.named(topics.caseName(), number == null ? "rest" : number % 2 == 0 ? "even" : "odd");
        }, Produced.with(Serdes.String(), Json.SERDE));
    }

    private static void repartition(Topics topics) {
        KStream<String, ObjectNode> through = topics.stream("in")
                .selectKey((key, value) -> Json.text(value, "g"))
                .repartition(Repartitioned.<String, ObjectNode>as(topics.caseName()).withKeySerde(Serdes.String()).withValueSerde(Json.SERDE));
        topics.write("through", through);
        topics.write("counted", through.groupByKey(Topics.GROUPED).count().mapValues(count -> Json.object("count", count)));
        topics.writeWindows("windowed", through.groupByKey(Topics.GROUPED)
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), Duration.ofDays(1)))
                .count().mapValues(count -> Json.object("count", count)));
    }
}
