import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.WallclockTimestampExtractor;

/**
 * The queries of Nexmark as Kafka Streams has them, exactly once: NexmarkStreams BOOTSTRAP QUERY DIRECTORY THREADS. Runs
 * until it is terminated. `bench/streams/applications.py` has the same queries.
 */
public final class NexmarkStreams {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Serde<String> TEXT = Serdes.String();
    private static final Serializer<JsonNode> WRITE = (topic, node) -> {
        try {
            return node == null ? null : JSON.writeValueAsBytes(node);
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    };
    private static final Deserializer<JsonNode> READ = (topic, bytes) -> {
        try {
            return bytes == null ? null : JSON.readTree(bytes);
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    };
    private static final Serde<JsonNode> NODE = Serdes.serdeFrom(WRITE, READ);
    private static final Duration TEN_SECONDS = Duration.ofSeconds(10);
    private static final Set<String> STATES = Set.of("OR", "ID", "CA");

    private final StreamsBuilder builder = new StreamsBuilder();

    public static void main(String[] arguments) throws InterruptedException {
        String query = arguments[1];
        NexmarkStreams nexmark = new NexmarkStreams();
        nexmark.build(query);
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "java-nexmark-" + query);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, arguments[3]);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        KafkaStreams streams = new KafkaStreams(nexmark.builder.build(), settings);
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(10));
            ended.countDown();
        }));
        streams.start();
        System.out.println("started");
        ended.await();
    }

    private void build(String query) {
        switch (query) {
            case "q0" -> out(bids());
            case "q1" -> out(bids().mapValues(bid -> with(bid, "price", bid.get("price").asLong() * 0.908)));
            case "q2" -> out(bids().filter((key, bid) -> bid.get("auction").asLong() % 123 == 0).mapValues(
                    bid -> object().<ObjectNode>set("auction", bid.get("auction")).set("price", bid.get("price"))));
            case "q3" -> sellers();
            case "q4" -> averagePrices();
            case "q5" -> hotAuctions();
            case "q7" -> highestBids();
            case "q8" -> newSellers();
            case "q11" -> sessions();
            case "q12" -> byClock();
            case "q13" -> sideInput();
            case "count" -> countPerKey();
            default -> throw new IllegalArgumentException(query);
        }
    }

    private void sellers() {
        KTable<String, JsonNode> persons = builder.table("nexmark-person", Consumed.with(TEXT, NODE))
                .filter((key, person) -> STATES.contains(person.get("state").asText()));
        KTable<String, JsonNode> auctions = builder.table("nexmark-auction", Consumed.with(TEXT, NODE))
                .filter((key, auction) -> auction.get("category").asInt() == 10);
        out(auctions.join(persons, auction -> auction.get("seller").asText(), NexmarkStreams::both).toStream());
    }

    private void averagePrices() {
        KTable<String, JsonNode> auctions = builder.table("nexmark-auction", Consumed.with(TEXT, NODE));
        KTable<String, JsonNode> best = bids()
                .join(auctions, NexmarkStreams::both, Joined.with(TEXT, NODE, NODE))
                .filter((key, bid) -> bid.get("at").asLong() <= bid.get("expires").asLong())
                .groupByKey(Grouped.with(TEXT, NODE))
                .reduce((one, other) -> one.get("price").asLong() >= other.get("price").asLong() ? one : other,
                        Materialized.with(TEXT, NODE));
        KTable<String, JsonNode> sums = best
                .groupBy((key, bid) -> KeyValue.pair(bid.get("category").asText(), bid), Grouped.with(TEXT, NODE))
                .aggregate(() -> (JsonNode) object().put("sum", 0L).put("count", 0L),
                        (key, bid, sum) -> add(sum, bid.get("price").asLong(), 1),
                        (key, bid, sum) -> add(sum, -bid.get("price").asLong(), -1), Materialized.with(TEXT, NODE));
        out(sums.mapValues(sum -> (JsonNode) object().put("price",
                sum.get("sum").asDouble() / Math.max(1, sum.get("count").asLong()))).toStream());
    }

    private void hotAuctions() {
        KStream<String, JsonNode> counts = bids().groupByKey(Grouped.with(TEXT, NODE))
                .windowedBy(TimeWindows.ofSizeWithNoGrace(TEN_SECONDS).advanceBy(Duration.ofSeconds(2)))
                .count(Materialized.with(TEXT, Serdes.Long()))
                .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
                .toStream((window, count) -> window)
                .map((window, count) -> KeyValue.pair(Long.toString(window.window().start()),
                        (JsonNode) object().put("auction", window.key()).put("bids", count)));
        out(counts.groupByKey(Grouped.with(TEXT, NODE))
                .reduce((one, other) -> one.get("bids").asLong() >= other.get("bids").asLong() ? one : other,
                        Materialized.with(TEXT, NODE)).toStream());
    }

    private void highestBids() {
        out(bids().selectKey((key, bid) -> "1").groupByKey(Grouped.with(TEXT, NODE))
                .windowedBy(TimeWindows.ofSizeWithNoGrace(TEN_SECONDS))
                .reduce((one, other) -> one.get("price").asLong() >= other.get("price").asLong() ? one : other,
                        Materialized.with(TEXT, NODE))
                .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
                .toStream((window, bid) -> Long.toString(window.window().start())));
    }

    private void newSellers() {
        KStream<String, JsonNode> persons = builder.stream("nexmark-person", Consumed.with(TEXT, NODE));
        KStream<String, JsonNode> sellers = builder.stream("nexmark-auction", Consumed.with(TEXT, NODE))
                .selectKey((key, auction) -> auction.get("seller").asText());
        out(persons.join(sellers, NexmarkStreams::both, JoinWindows.ofTimeDifferenceWithNoGrace(TEN_SECONDS),
                StreamJoined.with(TEXT, NODE, NODE)));
    }

    private void sessions() {
        out(bids().groupBy((key, bid) -> bid.get("bidder").asText(), Grouped.with(TEXT, NODE))
                .windowedBy(SessionWindows.ofInactivityGapWithNoGrace(TEN_SECONDS))
                .count(Materialized.with(TEXT, Serdes.Long()))
                .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
                .toStream((window, count) -> window.key())
                .mapValues(count -> (JsonNode) object().put("count", count)));
    }

    private void byClock() {
        KStream<String, JsonNode> bids = builder.stream("nexmark-bid",
                Consumed.with(TEXT, NODE).withTimestampExtractor(new WallclockTimestampExtractor()));
        out(bids.groupBy((key, bid) -> bid.get("bidder").asText(), Grouped.with(TEXT, NODE))
                .windowedBy(TimeWindows.ofSizeWithNoGrace(TEN_SECONDS))
                .count(Materialized.with(TEXT, Serdes.Long()))
                .toStream((window, count) -> window.key())
                .mapValues(count -> (JsonNode) object().put("count", count)));
    }

    private void sideInput() {
        var side = builder.globalTable("nexmark-side", Consumed.with(TEXT, NODE));
        out(bids().join(side, (key, bid) -> Long.toString(bid.get("auction").asLong() % 1000), NexmarkStreams::both));
    }

    private void countPerKey() {
        out(bids().groupBy((key, bid) -> bid.get("bidder").asText(), Grouped.with(TEXT, NODE))
                .aggregate(() -> (JsonNode) object().put("count", 0L).put("at", 0L),
                        (key, bid, state) -> object().put("count", state.get("count").asLong() + 1)
                                .put("at", Math.max(state.get("at").asLong(), bid.get("at").asLong())),
                        Materialized.with(TEXT, NODE)).toStream());
    }

    private KStream<String, JsonNode> bids() {
        return builder.stream("nexmark-bid", Consumed.with(TEXT, NODE));
    }

    private static void out(KStream<String, ? extends JsonNode> rows) {
        rows.mapValues(row -> (JsonNode) row).to("java-nexmark-out", Produced.with(TEXT, NODE));
    }

    private static JsonNode both(JsonNode left, JsonNode right) {
        ObjectNode joined = right.deepCopy();
        joined.setAll((ObjectNode) left);
        return joined;
    }

    private static JsonNode with(JsonNode row, String name, double value) {
        return row.<ObjectNode>deepCopy().put(name, value);
    }

    private static JsonNode add(JsonNode sum, long price, long count) {
        return object().put("sum", sum.get("sum").asLong() + price).put("count", sum.get("count").asLong() + count);
    }

    private static ObjectNode object() {
        return JsonNodeFactory.instance.objectNode();
    }
}
