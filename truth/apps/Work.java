import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.concurrent.atomic.AtomicInteger;

/** The habits of the Tomcat cases, by path: /job/plain, /job/sleep, /job/lock, /job/garbage. */
public class Work extends HttpServlet {
    private static final byte[] BODY = "x".repeat(1024).getBytes();
    private static final Object LOCK = new Object();
    /** Lives across collections, so that each of them has something to trace. */
    private static final Object[] KEPT = new Object[150_000];
    private static final AtomicInteger NEXT = new AtomicInteger();

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        try {
            work(request.getPathInfo());
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        response.setContentType("text/plain");
        response.setContentLength(BODY.length);
        response.getOutputStream().write(BODY);
    }

    private static void work(String habit) throws InterruptedException {
        switch (habit) {
            case "/sleep" -> Thread.sleep(10);
            case "/lock" -> {
                synchronized (LOCK) {
                    Thread.sleep(2);
                }
            }
            case "/wait" -> Thread.sleep(2);
            case "/garbage" -> {
                for (int i = 0; i < 1000; i++) {
                    KEPT[Math.floorMod(NEXT.getAndIncrement(), KEPT.length)] = new byte[64];
                }
            }
            default -> { }
        }
    }
}
