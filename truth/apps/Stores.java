import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.zip.CRC32;
import org.apache.tomcat.dbcp.dbcp2.BasicDataSource;

/** The stores of a plant in PostgreSQL, by Tomcat's pool; its web.xml says which page there is, and how it is made. */
public class Stores extends HttpServlet {
    private static final int VALVES = 20_000, ORDERS = 40_000, CONNECTIONS = 16, SHEET = 64 * 1024;
    private static final ThreadLocal<ByteBuffer> OWN = ThreadLocal.withInitial(() -> ByteBuffer.allocateDirect(SHEET));

    private interface Page {
        String make() throws SQLException;
    }

    private final BasicDataSource pool = new BasicDataSource();
    private Page page;
    private int rowsAtOnce;
    private boolean kept;

    @Override
    public void init() throws ServletException {
        pool.setUrl(getInitParameter("url"));
        pool.setUsername("truth");
        pool.setDriverClassName("org.postgresql.Driver");
        pool.setMaxTotal(CONNECTIONS);
        pool.setMaxIdle(CONNECTIONS);
        rowsAtOnce = Integer.parseInt(getInitParameter("rows"));
        kept = Boolean.parseBoolean(getInitParameter("kept"));
        switch (getInitParameter("page")) {
            case "left" -> page = this::left;
            case "sheet" -> page = this::sheet;
            case "stock" -> page = this::stock;
            default -> throw new ServletException("no such page");
        }
        try {
            fill();
        } catch (SQLException e) {
            throw new ServletException(e);
        }
    }

    /** Orders, of which nearly all went their way; those that were left over are from long ago. */
    private void fill() throws SQLException {
        try (Connection c = pool.getConnection(); var s = c.createStatement()) {
            s.execute("create table orders (id int primary key, state text, made timestamp, note text)");
            s.execute("insert into orders select n, case when n <= 40 then 'left' else "
                + "(array['asked', 'offered', 'placed', 'packed', 'sent', 'there', "
                + "'fitted', 'paid', 'sent back', 'done'])[1 + n % 10] end, "
                + "timestamp '2023-01-01' + n * interval '1 minute', 'open and shut' from generate_series(1, "
                + ORDERS + ") n");
            s.execute("create index on orders (state)");
            s.execute("create index on orders (made)");
            s.execute("vacuum analyze orders");
        }
    }

    /** The ten latest of those orders that nobody took up. */
    private String left() throws SQLException {
        var text = new StringBuilder();
        try (Connection c = pool.getConnection();
             PreparedStatement s = c.prepareStatement(
                 "select id, note from orders where state = ? order by made desc limit 10")) {
            s.setString(1, "left");
            try (ResultSet rows = s.executeQuery()) {
                while (rows.next()) {
                    text.append(rows.getInt(1)).append(' ').append(rows.getString(2)).append('\n');
                }
            }
        }
        return text.toString();
    }

    /** A valve's note for the label printer: what its program wants is made outside of the heap, with its check sum. */
    private String sheet() throws SQLException {
        ByteBuffer sheet = kept ? OWN.get().clear() : ByteBuffer.allocateDirect(SHEET);
        int valve = 1 + ThreadLocalRandom.current().nextInt(VALVES);
        try (Connection c = pool.getConnection();
             PreparedStatement s = c.prepareStatement("select note from valves where id = ?")) {
            s.setInt(1, valve);
            try (ResultSet rows = s.executeQuery()) {
                rows.next();
                sheet.put(rows.getString(1).getBytes(StandardCharsets.UTF_8));
            }
        }
        var sum = new CRC32();
        sum.update(sheet.flip());
        return valve + " " + sum.getValue() + "\n";
    }

    /** How much the names of 400 valves take on a list; rows come as many at once as they are asked for. */
    private String stock() throws SQLException {
        int first = ThreadLocalRandom.current().nextInt(VALVES - 400), width = 0;
        try (Connection c = pool.getConnection()) {
            c.setAutoCommit(false);
            try (PreparedStatement s = c.prepareStatement(
                     "select name from valves where id > ? order by id limit 400")) {
                s.setFetchSize(rowsAtOnce);
                s.setInt(1, first);
                try (ResultSet rows = s.executeQuery()) {
                    while (rows.next()) {
                        width = Math.max(width, rows.getString(1).length());
                    }
                }
            }
            c.commit();
            c.setAutoCommit(true);
        }
        return "as wide as " + width + "\n";
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response)
            throws IOException, ServletException {
        try {
            byte[] text = page.make().getBytes(StandardCharsets.UTF_8);
            response.setContentType("text/plain");
            response.setContentLength(text.length);
            response.getOutputStream().write(text);
        } catch (SQLException e) {
            throw new ServletException(e);
        }
    }
}
