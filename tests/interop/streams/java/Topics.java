import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Windowed;

/** The topics of one case: keys are text, values JSON. A case's topics begin with its name, so that all cases fit into one application. */
record Topics(String caseName, StreamsBuilder builder) {
    static final Consumed<String, ObjectNode> CONSUMED = Consumed.with(Serdes.String(), Json.SERDE);
    static final Grouped<String, ObjectNode> GROUPED = Grouped.with(Serdes.String(), Json.SERDE);

    static String named(String caseName, String topic) {
        return caseName + "." + topic;
    }

    KStream<String, ObjectNode> stream(String topic) {
        return builder.stream(named(caseName, topic), CONSUMED);
    }

    KStream<String, ObjectNode> streams(String... topics) {
        return builder.stream(Arrays.stream(topics).map(topic -> named(caseName, topic)).toList(), CONSUMED);
    }

    KStream<String, ObjectNode> pattern(String pattern) {
        return builder.stream(Pattern.compile(Pattern.quote(named(caseName, "")) + pattern), CONSUMED);
    }

    KTable<String, ObjectNode> table(String topic) {
        return builder.table(named(caseName, topic), CONSUMED);
    }

    GlobalKTable<String, ObjectNode> global(String topic) {
        return builder.globalTable(named(caseName, topic), CONSUMED);
    }

    void write(String topic, KStream<String, ObjectNode> rows) {
        rows.to(named(caseName, topic), Produced.with(Serdes.String(), Json.SERDE));
    }

    void write(String topic, KTable<String, ObjectNode> rows) {
        write(topic, rows.toStream());
    }

    /** A window's key as an object of key, start and end. */
    void writeWindows(String topic, KTable<Windowed<String>, ObjectNode> rows) {
        write(topic, rows.toStream((key, value) -> new String(Json.bytes(Json.object()
                .put("key", key.key())
                .put("start", key.window().start())
                .put("end", key.window().end())))));
    }
}
