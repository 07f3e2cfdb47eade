import freemarker.template.Configuration;
import freemarker.template.TemplateException;
import java.io.File;
import java.io.IOException;
import java.io.Serializable;
import java.io.Writer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import net.sf.ehcache.Cache;
import net.sf.ehcache.CacheManager;
import net.sf.ehcache.Element;
import net.sf.ehcache.config.CacheConfiguration;
import net.sf.ehcache.config.Configuration.Monitoring;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.AbstractHandler;

/** Notices of a plant as pages by FreeMarker, out of a cache of Ehcache, on Jetty: Notices PORT HABIT TEMPLATES. */
public class Notices extends AbstractHandler {
    private static final int ON_A_PAGE = 30, IN_A_HALL = 300;

    /** What hangs at a valve; FreeMarker asks by the getters. */
    public static class Notice implements Serializable {
        private static final long serialVersionUID = 1;
        private final int number;
        private final String title;
        private final String text;

        Notice(int number) {
            this.number = number;
            title = "Valve " + number;
            text = "Open and shut by hand only & with <care>.";
        }

        public int getNumber() {
            return number;
        }

        public String getTitle() {
            return title;
        }

        public String getText() {
            return text;
        }
    }

    private final String habit;
    private final File templates;
    private final Configuration shared;
    private final Cache halls;

    Notices(String habit, File templates) throws IOException {
        this.habit = habit;
        this.templates = templates;
        shared = configuration();
        if (habit.equals("looked-at-each-time")) {
            shared.setTemplateUpdateDelayMilliseconds(0);
        }
        net.sf.ehcache.config.Configuration kept = new net.sf.ehcache.config.Configuration();
        kept.setUpdateCheck(false);
        kept.setMonitoring(Monitoring.OFF.name().toLowerCase(Locale.ROOT));
        CacheManager manager = CacheManager.create(kept);
        halls = new Cache(new CacheConfiguration("halls", 1000).eternal(true).copyOnRead(habit.equals("copied")));
        manager.addCache(halls);
        ArrayList<Notice> hall = new ArrayList<>();
        for (int n = 1; n <= IN_A_HALL; n++) {
            hall.add(new Notice(n));
        }
        halls.put(new Element("hall 7", hall));
    }

    private Configuration configuration() throws IOException {
        Configuration made = new Configuration(Configuration.VERSION_2_3_31);
        made.setDirectoryForTemplateLoading(templates);
        made.setDefaultEncoding("UTF-8");
        made.setLocale(Locale.GERMANY);
        return made;
    }

    @SuppressWarnings("unchecked")
    private void write(Writer out) throws IOException, TemplateException {
        List<Notice> hall = (List<Notice>) halls.get("hall 7").getObjectValue();
        Map<String, Object> model = new HashMap<>();
        boolean newest = habit.equals("copied") || habit.equals("newest");
        model.put("notices", hall.subList(0, newest ? 1 : ON_A_PAGE));
        Configuration configuration = habit.equals("own-configuration") ? configuration() : shared;
        configuration.getTemplate("notices.ftl").process(model, out);
    }

    @Override
    public void handle(String target, Request base, HttpServletRequest request, HttpServletResponse response) throws IOException {
        base.setHandled(true);
        response.setContentType("text/html;charset=utf-8");
        try {
            write(response.getWriter());
        } catch (TemplateException broken) {
            throw new IOException(broken);
        }
    }

    public static void main(String[] args) throws Exception {
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.parseInt(args[0]));
        server.addConnector(connector);
        server.setHandler(new Notices(args[1], new File(args[2])));
        server.start();
        server.join();
    }
}
