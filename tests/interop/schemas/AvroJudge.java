import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.apache.avro.SchemaCompatibility.Incompatibility;

/**
 * What Avro's own library says of pairs of schemas. Two lines in, a reader's schema and a writer's; three lines out, the text of each or
 * "refused", and the incompatibilities, or "ambiguous" where the checker throws, or nothing where a schema was refused.
 */
public final class AvroJudge {
    private AvroJudge() {
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        String line;
        while ((line = in.readLine()) != null) {
            Schema reader = parse(line, out);
            Schema writer = parse(in.readLine(), out);
            out.println(reader == null || writer == null ? "" : compare(reader, writer));
        }
        out.flush();
    }

    private static Schema parse(String text, PrintStream out) {
        try {
            Schema.Parser parser = new Schema.Parser(NameValidator.STRICT_VALIDATOR);
            parser.setValidateDefaults(true);
            Schema schema = parser.parse(text);
            out.println(schema);
            return schema;
        } catch (AvroRuntimeException | NumberFormatException refused) {
            out.println("refused");
            return null;
        }
    }

    private static String compare(Schema reader, Schema writer) {
        try {
            StringBuilder found = new StringBuilder();
            for (Incompatibility each : SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getResult().getIncompatibilities()) {
                found.append(each.getType()).append(' ').append(each.getLocation()).append(' ').append(each.getMessage()).append('\t');
            }
            return found.toString();
        } catch (AvroRuntimeException ambiguous) {
            return "ambiguous";
        }
    }
}
