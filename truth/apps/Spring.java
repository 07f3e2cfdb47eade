import com.fasterxml.jackson.databind.ObjectMapper;
import com.zaxxer.hikari.HikariDataSource;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;
import org.springframework.context.annotation.Bean;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.context.support.AnnotationConfigWebApplicationContext;
import org.springframework.web.servlet.DispatcherServlet;
import org.springframework.web.servlet.mvc.method.annotation.RequestMappingHandlerAdapter;
import org.springframework.web.servlet.mvc.method.annotation.RequestMappingHandlerMapping;

/** Spring MVC on Jetty with one habit, given by name: Spring PORT HABIT [DATABASE_PORT SERVICE_PORT]. */
public class Spring {
    private static final String BODY = "x".repeat(1024);
    private static String[] args;

    public record Valve(int id, String name, String note, Place place) { }

    public record Place(String hall, int shelf) { }

    /** What @EnableWebMvc would bring, by hand: Debian's Spring cannot make the classes that @Configuration asks for. */
    public static class Settings {
        @Bean
        public RequestMappingHandlerMapping mapping() {
            return new RequestMappingHandlerMapping();
        }

        @Bean
        public RequestMappingHandlerAdapter adapter() {
            return new RequestMappingHandlerAdapter();
        }

        @Bean
        public Pages pages() {
            return new Pages(habit());
        }
    }

    @RestController
    public static class Pages {
        private final Callable<String> page;

        Pages(Callable<String> page) {
            this.page = page;
        }

        @RequestMapping(value = "/", produces = "text/plain")
        public String show() throws Exception {
            return page.call();
        }
    }

    private static Callable<String> habit() {
        return switch (args[1]) {
            case "mapper-each-time" -> () -> new ObjectMapper().writeValueAsString(valve());
            case "mapper-kept" -> {
                ObjectMapper mapper = new ObjectMapper();
                yield () -> mapper.writeValueAsString(valve());
            }
            case "offer-in-transaction" -> {
                Offers offers = new Offers();
                yield () -> offers.transaction.execute(status -> offers.name() + offers.price());
            }
            case "offer-after-transaction" -> {
                Offers offers = new Offers();
                yield () -> offers.transaction.execute(status -> offers.name()) + offers.price();
            }
            default -> () -> BODY;
        };
    }

    private static Map<String, Valve> valve() {
        Map<String, Valve> found = new LinkedHashMap<>();
        found.put("valve", new Valve(7, "valve 7", "open and shut", new Place("east", 3)));
        return found;
    }

    /** What the database knows of a valve and what a service asks for it; the pool has HikariCP's ten connections. */
    private static class Offers {
        private final HttpClient client = HttpClient.newHttpClient();
        private final HttpRequest question = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + args[3] + "/")).build();
        private final JdbcTemplate database;
        private final TransactionTemplate transaction;

        Offers() {
            HikariDataSource source = new HikariDataSource();
            source.setJdbcUrl("jdbc:postgresql://127.0.0.1:" + args[2] + "/postgres");
            source.setUsername("truth");
            database = new JdbcTemplate(source);
            transaction = new TransactionTemplate(new DataSourceTransactionManager(source));
        }

        String name() {
            return database.queryForObject("select name from valves where id = ?", String.class, 7);
        }

        String price() {
            try {
                return client.send(question, HttpResponse.BodyHandlers.ofString()).body();
            } catch (java.io.IOException | InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    public static void main(String[] given) throws Exception {
        args = given;
        AnnotationConfigWebApplicationContext context = new AnnotationConfigWebApplicationContext();
        context.register(Settings.class);
        ServletContextHandler handler = new ServletContextHandler();
        handler.addServlet(new ServletHolder(new DispatcherServlet(context)), "/");
        Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])));
        server.setHandler(handler);
        server.start();
    }
}
