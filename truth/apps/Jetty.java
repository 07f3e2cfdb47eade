import java.io.IOException;
import java.net.Socket;
import java.util.concurrent.atomic.AtomicInteger;
import javax.servlet.ServletException;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.AbstractHandler;
import org.eclipse.jetty.util.thread.QueuedThreadPool;

/** Jetty inside a program, with one habit: Jetty PORT HABIT THREADS [BACKEND]; 200 threads are its default. */
public class Jetty extends AbstractHandler {
    private static final byte[] BODY = "x".repeat(1024).getBytes();
    private static final byte[] ASK = "GET /bytes/16 HTTP/1.1\r\nHost: service\r\n\r\n".getBytes();
    /** Carts of visitors: they live across collections, so that each of them has something to trace. */
    private static final Object[] CARTS = new Object[150_000];
    private static final AtomicInteger NEXT = new AtomicInteger();
    private final String habit;
    private final int backend;
    private Socket shared;
    private final ThreadLocal<Socket> own = new ThreadLocal<>();

    Jetty(String habit, int backend) {
        this.habit = habit;
        this.backend = backend;
    }

    @Override
    public void handle(String target, Request base, HttpServletRequest request, HttpServletResponse response)
            throws IOException, ServletException {
        base.setHandled(true);
        try {
            work();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        response.setContentType("text/plain");
        response.setContentLength(BODY.length);
        response.getOutputStream().write(BODY);
    }

    private void work() throws IOException, InterruptedException {
        switch (habit) {
            case "sleep" -> Thread.sleep(10);
            case "shared-connection" -> askShared();
            case "own-connection" -> askOwn();
            case "carts" -> {
                for (int i = 0; i < 1000; i++) {
                    CARTS[Math.floorMod(NEXT.getAndIncrement(), CARTS.length)] = new byte[64];
                }
            }
            default -> { }
        }
    }

    /** A client object that everybody uses, made safe with a lock around each question. */
    private synchronized void askShared() throws IOException {
        if (shared == null) {
            shared = connect();
        }
        ask(shared);
    }

    private void askOwn() throws IOException {
        if (own.get() == null) {
            own.set(connect());
        }
        ask(own.get());
    }

    private Socket connect() throws IOException {
        Socket socket = new Socket("127.0.0.1", backend);
        socket.setTcpNoDelay(true);
        return socket;
    }

    private static void ask(Socket socket) throws IOException {
        socket.getOutputStream().write(ASK);
        if (socket.getInputStream().read(new byte[4096]) <= 0) {
            throw new IOException("the service closed its connection");
        }
    }

    public static void main(String[] args) throws Exception {
        Server server = new Server(new QueuedThreadPool(Integer.parseInt(args[2])));
        ServerConnector connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.parseInt(args[0]));
        server.addConnector(connector);
        server.setHandler(new Jetty(args[1], args.length > 3 ? Integer.parseInt(args[3]) : 0));
        server.start();
        server.join();
    }
}
