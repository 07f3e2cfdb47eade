import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.StringReader;
import java.io.StringWriter;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import javax.xml.transform.Templates;
import javax.xml.transform.TransformerException;
import javax.xml.transform.TransformerFactory;
import javax.xml.transform.stream.StreamResult;
import javax.xml.transform.stream.StreamSource;

/** The habits of the mod_jk cases, by the property `habit`: plain, stock (asks a service), label and label-compiled. */
public class Reports extends HttpServlet {
    private static final String HABIT = System.getProperty("habit");
    private static final HttpClient CLIENT =
        HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private static final String XML = """
        <valves><valve number="17"><name>north</name><state>open</state></valve>
        <valve number="23"><name>south</name><state>shut</state></valve></valves>""";
    private static final String STYLESHEET = """
        <xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
        <xsl:output method="html"/>
        <xsl:template match="/valves"><ul><xsl:apply-templates select="valve"/></ul></xsl:template>
        <xsl:template match="valve">
        <li class="{state}"><xsl:value-of select="concat(@number, ': ', name)"/></li>
        </xsl:template>
        </xsl:stylesheet>""";
    private static final Templates LABELS = compiled();

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        byte[] body = page().getBytes();
        response.setContentType("text/html");
        response.setContentLength(body.length);
        response.getOutputStream().write(body);
    }

    private static String page() throws IOException {
        return switch (HABIT) {
            case "stock" -> stock();
            case "label" -> label(LABELS);
            case "label-compiled" -> label(compiled());
            default -> "open and shut";
        };
    }

    private static String stock() throws IOException {
        URI where = URI.create("http://127.0.0.1:" + System.getProperty("service") + "/");
        try {
            return CLIENT.send(HttpRequest.newBuilder(where).build(), HttpResponse.BodyHandlers.ofString()).body();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            return "";
        }
    }

    private static Templates compiled() {
        try {
            return TransformerFactory.newInstance().newTemplates(new StreamSource(new StringReader(STYLESHEET)));
        } catch (TransformerException error) {
            throw new IllegalStateException(error);
        }
    }

    private static String label(Templates templates) {
        StringWriter page = new StringWriter();
        try {
            templates.newTransformer().transform(new StreamSource(new StringReader(XML)), new StreamResult(page));
        } catch (TransformerException error) {
            throw new IllegalStateException(error);
        }
        return page.toString();
    }
}
