import java.io.FileOutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.concurrent.Executors;

/** FOLDER [TRANSACTION]: does what one_log.go does, with each request on a thread of a pool. */
public class OneLog {
    public static void main(String[] words) throws Exception {
        String folder = words[0];
        boolean isRecorded = words.length > 1;
        var log = FileChannel.open(Path.of(folder, "log"), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        if (isRecorded)
            try (var marker = new FileOutputStream("/dev/null")) {
                marker.write(("KREPLAY1 proc txn=" + words[1]).getBytes());
            }
        var pool = Executors.newFixedThreadPool(4);
        var slow = new ArrayList<String>();
        for (int i = 0; i < 60; i++) {
            if (i == 31 && isRecorded) {
                new ProcessBuilder("fsfreeze", "--freeze", folder).start().waitFor();
                new ProcessBuilder("sh", "-c", "sleep 0.3; fsfreeze --unfreeze " + folder).start();
            }
            int number = i;
            long took = pool.submit(() -> {
                long start = System.nanoTime();
                log.write(ByteBuffer.wrap(("request " + number + "\n").getBytes()));
                log.force(true);
                return System.nanoTime() - start;
            }).get();
            if (took > 250_000_000)
                slow.add(String.valueOf(i));
        }
        pool.shutdown();
        System.out.println(String.join(",", slow));
    }
}
