import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** Values are JSON objects; a field that is null and one that is not there are the same. */
final class Json {
    static final ObjectMapper MAPPER = new ObjectMapper();
    static final Serde<ObjectNode> SERDE = Serdes.serdeFrom((topic, value) -> value == null ? null : bytes(value), (topic, bytes) -> object(bytes));

    private Json() {
    }

    static byte[] bytes(JsonNode node) {
        try {
            return MAPPER.writeValueAsBytes(node);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static ObjectNode object(byte[] bytes) {
        try {
            return bytes == null ? null : (ObjectNode) MAPPER.readTree(bytes);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static ObjectNode object() {
        return JsonNodeFactory.instance.objectNode();
    }

    static ObjectNode object(String name, Long value) {
        return value == null ? object() : object().put(name, value);
    }

    static String text(ObjectNode value, String field) {
        return value == null || !value.hasNonNull(field) ? null : value.get(field).asText();
    }

    static Long number(ObjectNode value, String field) {
        return value == null || !value.hasNonNull(field) ? null : value.get(field).asLong();
    }

    /** The fields of both; those of the right that the left may have, too, are those in `shared` and get `_right` behind. */
    static ObjectNode joined(ObjectNode left, ObjectNode right, String... shared) {
        ObjectNode both = left == null ? object() : left.deepCopy();
        for (String field : shared) {
            if (right != null && right.hasNonNull(field)) {
                both.set(field + "_right", right.get(field));
            }
        }
        return both;
    }

    /** As SQL adds: null where there is nothing to add. */
    static Long sum(Long one, Long other) {
        return one == null ? other : other == null ? one : Long.valueOf(one + other);
    }

    static Long larger(Long one, Long other) {
        return one == null ? other : other == null ? one : Long.valueOf(Math.max(one, other));
    }

    static Long smaller(Long one, Long other) {
        return one == null ? other : other == null ? one : Long.valueOf(Math.min(one, other));
    }

    static ObjectNode with(ObjectNode value, String field, Long number) {
        return number == null ? value : value.put(field, number);
    }
}
