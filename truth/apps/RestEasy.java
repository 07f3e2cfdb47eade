// Resources of JAX-RS with RESTEasy on Jetty, each habit at its own path: RestEasy PORT CONNECTIONS [SERVICE_PORT].

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import javax.ws.rs.GET;
import javax.ws.rs.Path;
import javax.ws.rs.Produces;
import javax.ws.rs.client.Client;
import javax.ws.rs.core.Application;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;
import org.eclipse.jetty.util.thread.QueuedThreadPool;
import org.jboss.resteasy.client.jaxrs.ResteasyClientBuilder;
import org.jboss.resteasy.plugins.server.servlet.HttpServletDispatcher;

public class RestEasy extends Application {
    static int connections = 16;
    static String service = "";

    public static class Place {
        public String hall;
        public int shelf;
    }

    public static class Valve {
        public int id;
        public String name;
        public String note = "open and shut";
        public Place place = new Place();

        Valve(int id) {
            this.id = id;
            name = "valve " + id;
            place.hall = "hall " + id % 12;
            place.shelf = id % 40;
        }
    }

    static Client client() {
        return new ResteasyClientBuilder().connectionPoolSize(connections).maxPooledPerRoute(connections).build();
    }

    @Path("/")
    public static class Shop {
        final ObjectMapper mapper = new ObjectMapper();
        final List<Valve> valves = new ArrayList<>();
        final Client kept = client();

        public Shop() {
            for (int id = 0; id < 20; id++) {
                valves.add(new Valve(id));
            }
        }

        @GET @Path("valves") @Produces("application/json")
        public List<Valve> valves() {
            return valves;
        }

        @GET @Path("valves-by-hand") @Produces("application/json")
        public String valvesByHand() throws IOException {
            return mapper.writeValueAsString(valves);
        }

        @GET @Path("valves-mapper-each-time") @Produces("application/json")
        public String valvesByANewMapper() throws IOException {
            return new ObjectMapper().writeValueAsString(valves);
        }

        @GET @Path("price") @Produces("text/plain")
        public String price() {
            return ask(kept);
        }

        @GET @Path("price-client-each-time") @Produces("text/plain")
        public String priceByANewClient() {
            Client own = client();
            try {
                return ask(own);
            } finally {
                own.close();
            }
        }

        @GET @Path("plain") @Produces("text/plain")
        public String plain() {
            return "x".repeat(1024);
        }

        private String ask(Client client) {
            return "valve: " + client.target(service).request().get(byte[].class).length;
        }
    }

    @Override
    public Set<Object> getSingletons() {
        Set<Object> all = new HashSet<>();
        all.add(new Shop());
        return all;
    }

    public static void main(String[] args) throws Exception {
        connections = Integer.parseInt(args[1]);
        if (args.length > 2) {
            service = "http://127.0.0.1:" + args[2] + "/bytes/64";
        }
        QueuedThreadPool threads = new QueuedThreadPool(32);
        Server server = new Server(threads);
        ServerConnector connector = new ServerConnector(server, 1, 1);
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.parseInt(args[0]));
        connector.setIdleTimeout(TimeUnit.MINUTES.toMillis(5));
        server.addConnector(connector);
        ServletContextHandler context = new ServletContextHandler();
        ServletHolder dispatcher = new ServletHolder(new HttpServletDispatcher());
        dispatcher.setInitParameter("javax.ws.rs.Application", RestEasy.class.getName());
        context.addServlet(dispatcher, "/*");
        server.setHandler(context);
        server.start();
        server.join();
    }
}
