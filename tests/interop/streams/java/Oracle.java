import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Says what Kafka Streams answers to the cases of the tests: a line of JSON per case, {"case": name, "outputs": {topic: [{key, value,
 * timestamp}, ...]}}, in the order of the records.
 *
 * driver FILE...                      each record piped through the TopologyTestDriver
 * broker BOOTSTRAP APPLICATION FILE... all cases in one application on a real broker (see Running)
 */
public final class Oracle {
    private static final List<Map<String, Consumer<Topics>>> CASES = List.of(Joins.CASES, Aggregates.CASES, Windows.CASES, Stateless.CASES);

    private Oracle() {
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("driver")) {
            for (Case one : casesIn(Arrays.asList(arguments).subList(1, arguments.length))) {
                System.out.println(Json.MAPPER.writeValueAsString(piped(one)));
            }
        } else {
            List<Case> cases = casesIn(Arrays.asList(arguments).subList(3, arguments.length));
            for (ObjectNode answer : new Running(arguments[1], arguments[2]).answers(cases)) {
                System.out.println(Json.MAPPER.writeValueAsString(answer));
            }
        }
        System.exit(0);
    }

    /** A case file: its records in the order in which they come, and the topics that it writes. */
    record Case(String name, List<ObjectNode> records, List<String> outputs) {
        static Case read(Path path) throws IOException {
            JsonNode file = Json.MAPPER.readTree(path.toFile());
            List<ObjectNode> records = new ArrayList<>();
            file.get("steps").forEach(step -> step.forEach(row -> records.add((ObjectNode) row)));
            List<String> outputs = new ArrayList<>();
            file.get("outputs").fieldNames().forEachRemaining(outputs::add);
            return new Case(path.getFileName().toString().replace(".json", ""), records, outputs);
        }

        String topic(String name) {
            return Topics.named(this.name, name);
        }
    }

    private static List<Case> casesIn(List<String> files) throws IOException {
        List<Case> cases = new ArrayList<>();
        for (String file : files) {
            cases.add(Case.read(Path.of(file)));
        }
        return cases;
    }

    static void build(String name, StreamsBuilder builder) {
        CASES.stream().filter(cases -> cases.containsKey(name)).findFirst()
                .orElseThrow(() -> new IllegalArgumentException("no topology for the case " + name))
                .get(name).accept(new Topics(name, builder));
    }

    /** No cache: each record shows its effect. Unmatched records of joins come with the next record, not once a second. */
    static Properties config(String application) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
        config.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX, 0L);
        return config;
    }

    private static ObjectNode piped(Case one) throws IOException {
        StreamsBuilder builder = new StreamsBuilder();
        build(one.name(), builder);
        Path state = Files.createTempDirectory("oracle");
        Properties config = config("oracle");
        config.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), config)) {
            Map<String, TestInputTopic<String, ObjectNode>> inputs = new HashMap<>();
            for (ObjectNode row : one.records()) {
                inputs.computeIfAbsent(row.get("topic").asText(), topic ->
                        driver.createInputTopic(one.topic(topic), new StringSerializer(), Json.SERDE.serializer())).pipeInput(
                        new TestRecord<>(Json.text(row, "key"), value(row), null, row.get("timestamp").asLong()));
            }
            ObjectNode outputs = Json.object();
            for (String topic : one.outputs()) {
                ArrayNode rows = outputs.putArray(topic);
                driver.createOutputTopic(one.topic(topic), new StringDeserializer(), Json.SERDE.deserializer()).readRecordsToList()
                        .forEach(row -> rows.add(row(row.key(), row.value(), row.timestamp())));
            }
            return answer(one, outputs);
        }
    }

    static ObjectNode value(ObjectNode row) {
        return row.get("value").isNull() ? null : (ObjectNode) row.get("value");
    }

    static ObjectNode row(String key, ObjectNode value, long timestamp) {
        ObjectNode row = Json.object();
        row.put("key", key);
        row.set("value", value);
        return row.put("timestamp", timestamp);
    }

    static ObjectNode answer(Case one, ObjectNode outputs) {
        ObjectNode answer = Json.object().put("case", one.name());
        answer.set("outputs", outputs);
        return answer;
    }
}
