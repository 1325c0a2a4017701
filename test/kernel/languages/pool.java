import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Runs tasks on the threads of a pool. The size of a write identifies its task. */
class Pool {
    static FileOutputStream out;

    static void mark(String fields) throws IOException {
        Files.writeString(Path.of("/dev/null"), "KREPLAY1 " + fields + "\n");
    }

    static Callable<Void> say(int size) {
        return () -> {
            out.write(new byte[size]);
            return null;
        };
    }

    static Callable<Void> sayFor(String order, int size) {
        return () -> {
            mark("txn=" + order);
            say(size).call();
            mark("end");
            return null;
        };
    }

    public static void main(String[] arguments) throws Exception {
        out = new FileOutputStream(arguments[0]);
        ExecutorService pool = Executors.newFixedThreadPool(1);
        mark("txn=creator");
        pool.submit(say(101)).get();
        mark("txn=other");
        pool.submit(say(102)).get();
        pool.submit(sayFor("task", 103)).get();
        pool.submit(say(104)).get();
        pool.shutdown();

        mark("txn=creator");
        pool = Executors.newFixedThreadPool(4);
        for (int i = 0; i < 4; i++) pool.submit(say(105)).get();
        mark("end");
        ArrayList<Future<Void>> tasks = new ArrayList<>();
        for (int number = 0; number < 100; number++) {
            tasks.add(pool.submit(sayFor("task-" + number, 1000 + number)));
            tasks.add(pool.submit(say(2000 + number)));
        }
        for (Future<Void> task : tasks) task.get();
        pool.shutdown();
    }
}
