/**
 * An HTTP server with sixteen threads for all connections: com.sun.net.httpserver.
 *
 *   java thread_pool.java FOLDER MODE     # prints its port, exits at the end of its standard input
 *
 * MODE: `plain`; `later`, the handler answers at once, and any of the threads writes the second line after the wait;
 * `async`, that thread answers as well.
 */
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.FileOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

class ThreadPool {
    static void say(String path, String line) throws IOException {
        try (var file = new FileOutputStream(path, true)) {
            file.write(line.getBytes());
        }
    }

    static void answer(HttpExchange exchange) throws IOException {
        try (exchange) {
            exchange.sendResponseHeaders(200, -1);
        }
    }

    static void serve(HttpExchange exchange, String folder, ScheduledExecutorService later, boolean answersLater)
            throws IOException, InterruptedException {
        var target = exchange.getRequestURI();
        var path = folder + target.getPath();
        var wait = Long.parseLong(target.getQuery());
        var parent = exchange.getRequestHeaders().getFirst("traceparent");
        var trace = parent == null ? "-" : parent.split("-")[1];
        exchange.getRequestBody().readAllBytes();
        say(path, "before " + trace + "\n");
        if (later == null) {
            Thread.sleep(wait);
            say(path, "after " + trace + "\n");
        }
        if (!answersLater) {
            answer(exchange);
        }
        if (later != null) {
            later.schedule(() -> {
                say(path, "after " + trace + "\n");
                if (answersLater) {
                    answer(exchange);
                }
                return null;
            }, wait, TimeUnit.MILLISECONDS);
        }
    }

    public static void main(String[] args) throws IOException {
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 64);
        var threads = new ScheduledThreadPoolExecutor(16);
        var answersLater = args[1].equals("async");
        var later = args[1].equals("later") || answersLater ? threads : null;
        server.setExecutor(threads);
        server.createContext("/", exchange -> {
            try {
                serve(exchange, args[0], later, answersLater);
            } catch (InterruptedException end) {
                throw new IOException(end);
            }
        });
        server.start();
        System.out.println(server.getAddress().getPort());
        System.in.readAllBytes();
        System.exit(0);
    }
}
