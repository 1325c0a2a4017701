import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Writes for two orders, and once for neither. */
class TwoOrders {
    static FileOutputStream out;

    static void work(String order, String text) throws IOException {
        Files.writeString(Path.of("/dev/null"), "KREPLAY1 txn=" + order + "\n");
        out.write(text.getBytes());
    }

    public static void main(String[] arguments) throws IOException {
        out = new FileOutputStream(arguments[0]);
        work("order-8812", "first\n");
        work("order-8813", "second\n");
        Files.writeString(Path.of("/dev/null"), "KREPLAY1 end\n");
        out.write("neither\n".getBytes());
    }
}
