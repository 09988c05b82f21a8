import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What Java applications do first, with the client at its defaults, again and again: make a topic, read in a new group, write in a
 * first transaction, and copy in transactions that go on. Each is a thread. They begin on a line of standard input, which is asked for
 * by the line "ready" when the client's classes are loaded, and end when standard input does. A line for each time that one is done,
 * "done=name=milliseconds", and for each error, "error=name=exception".
 */
public final class Beginnings {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final long RETRY_MS = 100;
    private static final long PAUSE_MS = 500;
    private static final int WARM_UPS = 3;
    private static final AtomicInteger NUMBERS = new AtomicInteger();

    private final String servers;
    private final String readTopic;
    private final String copyTopic;
    private volatile boolean isEnding;

    private Beginnings(String servers, String readTopic, String copyTopic) {
        this.servers = servers;
        this.readTopic = readTopic;
        this.copyTopic = copyTopic;
    }

    private interface Attempt {
        void make() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Beginnings beginnings = new Beginnings(arguments[0], arguments[1], arguments[2]);
        Copier copier = beginnings.new Copier();
        beginnings.warmUp();
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        if (input.readLine() == null) {
            return;
        }
        List<Thread> threads = List.of(
                beginnings.start("makes a topic", beginnings::makeTopic),
                beginnings.start("reads in a new group", beginnings::read),
                beginnings.start("writes in a first transaction", beginnings::write),
                beginnings.start("copies in transactions", copier::copy));
        while (input.readLine() != null) {
            // Nothing is told but the end.
        }
        beginnings.isEnding = true;
        for (Thread thread : threads) {
            thread.join();
        }
    }

    /** Loads the client's classes by using them. No group and no transaction is asked for, so no internal topic is made. */
    private void warmUp() throws Exception {
        for (int time = 0; time < WARM_UPS; time++) {
            makeTopic();
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                    Map.of("bootstrap.servers", servers), new StringSerializer(), new StringSerializer())) {
                producer.send(new ProducerRecord<>(copyTopic, "warm")).get();
            }
            try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
                    Map.of("bootstrap.servers", servers, "auto.offset.reset", "earliest"),
                    new StringDeserializer(),
                    new StringDeserializer())) {
                consumer.assign(consumer.partitionsFor(readTopic).stream()
                        .map(partition -> new TopicPartition(readTopic, partition.partition()))
                        .toList());
                awaitRecord(consumer);
            }
        }
    }

    private Thread start(String name, Attempt attempt) {
        Thread thread = new Thread(() -> repeat(name, attempt), name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private void repeat(String name, Attempt attempt) {
        while (!isEnding) {
            long began = System.nanoTime();
            while (!succeeds(name, attempt)) {
                if (isEnding) {
                    return;
                }
                pause(RETRY_MS);
            }
            tell("done", name, Long.toString(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began)));
            pause(PAUSE_MS);
        }
    }

    private static boolean succeeds(String name, Attempt attempt) {
        try {
            attempt.make();
            return true;
        } catch (Exception error) {
            boolean isWrapped = error instanceof ExecutionException && error.getCause() != null;
            tell("error", name, (isWrapped ? error.getCause() : error).getClass().getSimpleName());
            return false;
        }
    }

    private static synchronized void tell(String what, String name, String value) {
        System.out.println(what + "=" + name + "=" + value);
    }

    private static void pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private void makeTopic() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            String name = "made-in-java-" + NUMBERS.incrementAndGet();
            NewTopic topic = new NewTopic(name, 1, (short) 3).configs(Map.of("min.insync.replicas", "2"));
            admin.createTopics(List.of(topic)).all().get();
            admin.deleteTopics(List.of(name)).all().get();
        }
    }

    private void read() {
        try (KafkaConsumer<String, String> consumer = consumer("reads-in-java-" + NUMBERS.incrementAndGet())) {
            consumer.subscribe(List.of(readTopic));
            awaitRecord(consumer);
            consumer.commitSync();
        }
    }

    private static void awaitRecord(KafkaConsumer<String, String> consumer) {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (consumer.poll(Duration.ofMillis(100)).isEmpty()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("no record came");
            }
        }
    }

    private KafkaConsumer<String, String> consumer(String group) {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "group.id", group, "auto.offset.reset", "earliest");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private void write() {
        try (KafkaProducer<String, String> producer = producer("writes-in-java-" + NUMBERS.incrementAndGet())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(copyTopic, "first"));
            producer.commitTransaction();
        }
    }

    private KafkaProducer<String, String> producer(String transactionalId) {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "transactional.id", transactionalId);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    /** One transaction for each call, of a producer that stays until an error comes; the next fences it. */
    private final class Copier {
        private final ConsumerGroupMetadata group;
        private KafkaProducer<String, String> producer;
        private long copied;

        Copier() {
            try (KafkaConsumer<String, String> consumer = consumer("copies-in-java")) {
                group = consumer.groupMetadata();
            }
        }

        void copy() {
            if (producer == null) {
                KafkaProducer<String, String> begun = producer("copies-in-java");
                try {
                    begun.initTransactions();
                } catch (RuntimeException error) {
                    begun.close(Duration.ZERO);
                    throw error;
                }
                producer = begun;
            }
            try {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(copyTopic, Long.toString(copied)));
                producer.sendOffsetsToTransaction(
                        Map.of(new TopicPartition(readTopic, 0), new OffsetAndMetadata(copied)), group);
                producer.commitTransaction();
                copied++;
            } catch (RuntimeException error) {
                producer.close(Duration.ZERO);
                producer = null;
                throw error;
            }
        }
    }
}
