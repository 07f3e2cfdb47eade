import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.SortedDocValuesField;
import org.apache.lucene.document.StoredField;
import org.apache.lucene.document.StringField;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.DocValues;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.LeafReaderContext;
import org.apache.lucene.index.SortedDocValues;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.ScoreMode;
import org.apache.lucene.search.SearcherManager;
import org.apache.lucene.search.SimpleCollector;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.store.Directory;
import org.apache.lucene.store.FSDirectory;
import org.apache.lucene.store.NIOFSDirectory;
import org.apache.lucene.util.BytesRef;

/** A catalogue that Lucene searches, with one habit: Catalogue PORT DIRECTORY HABIT; -Dfiles=nio reads it by calls. */
public class Catalogue {
    private static final int VALVES = 19_500;
    private static final int DAY = 1000;
    private static final int HALLS = 40;
    private static final int WORDS = 400;
    private static final int LENGTH = 14;
    private static final int SHOWN = 10;
    private static final int MOST = 5000;
    private static final int ORDERED = 80;
    private static final String[] SYLLABLES = {"bra", "ken", "tor", "que", "sha", "ft", "spe", "ed", "ste", "am"};

    private final Directory directory;
    private final SearcherManager searchers;

    Catalogue(Path path) throws IOException {
        directory = "nio".equals(System.getProperty("files")) ? new NIOFSDirectory(path) : FSDirectory.open(path);
        fill();
        searchers = new SearcherManager(directory, null);
    }

    /** Low numbers are frequent, as in prose. */
    private static String word(Random source) {
        int n = (int) (WORDS * source.nextDouble() * source.nextDouble() * source.nextDouble());
        return SYLLABLES[n % 10] + SYLLABLES[n / 10 % 10] + SYLLABLES[n / 100];
    }

    private static String text(Random source) {
        StringBuilder text = new StringBuilder();
        for (int n = 0; n < LENGTH; n++) {
            text.append(word(source)).append(' ');
        }
        return text.toString();
    }

    /** Valves come a day's at a time, so that the index has a segment for each of the last days. */
    private void fill() throws IOException {
        Random source = new Random(7);
        IndexWriterConfig config = new IndexWriterConfig(new StandardAnalyzer()).setMaxBufferedDocs(DAY);
        try (IndexWriter writer = new IndexWriter(directory, config)) {
            for (int n = 0; n < VALVES; n++) {
                String hall = "hall " + n * 7 % HALLS;
                Document valve = new Document();
                valve.add(new StringField("id", "valve-" + n, Field.Store.YES));
                valve.add(new SortedDocValuesField("hall", new BytesRef(hall)));
                valve.add(new StoredField("hall", hall));
                valve.add(new TextField("note", text(source), Field.Store.YES));
                writer.addDocument(valve);
            }
        }
    }

    private interface Search {
        String by(IndexSearcher searcher) throws IOException;
    }

    private String withKept(Search search) throws IOException {
        IndexSearcher searcher = searchers.acquire();
        try {
            return search.by(searcher);
        } finally {
            searchers.release(searcher);
        }
    }

    private String withOpened(Search search) throws IOException {
        try (DirectoryReader reader = DirectoryReader.open(directory)) {
            return search.by(new IndexSearcher(reader));
        }
    }

    private static Query some(int first, int words) {
        int n = first + ThreadLocalRandom.current().nextInt(words);
        return new TermQuery(new Term("note", SYLLABLES[n % 10] + SYLLABLES[n / 10 % 10] + SYLLABLES[n / 100]));
    }

    private static String found(IndexSearcher searcher) throws IOException {
        StringBuilder page = new StringBuilder();
        for (ScoreDoc hit : searcher.search(some(100, 300), SHOWN).scoreDocs) {
            page.append(searcher.doc(hit.doc).get("id")).append('\n');
        }
        return page.toString();
    }

    private static String hallsFromDocuments(IndexSearcher searcher) throws IOException {
        Map<String, Integer> halls = new TreeMap<>();
        for (ScoreDoc hit : searcher.search(some(100, 20), MOST).scoreDocs) {
            halls.merge(searcher.doc(hit.doc).get("hall"), 1, Integer::sum);
        }
        return halls.toString();
    }

    /** Counts the halls of what is found, by the column that the index has of them. */
    private static class Halls extends SimpleCollector {
        private final Map<String, Integer> counts = new TreeMap<>();
        private SortedDocValues column;

        @Override
        protected void doSetNextReader(LeafReaderContext context) throws IOException {
            column = DocValues.getSorted(context.reader(), "hall");
        }

        @Override
        public void collect(int document) throws IOException {
            if (column.advanceExact(document)) {
                counts.merge(column.binaryValue().utf8ToString(), 1, Integer::sum);
            }
        }

        @Override
        public ScoreMode scoreMode() {
            return ScoreMode.COMPLETE_NO_SCORES;
        }
    }

    private static String halls(IndexSearcher searcher) throws IOException {
        Halls halls = new Halls();
        searcher.search(some(100, 20), halls);
        return halls.counts.toString();
    }

    /** Which of an order's valves the catalogue has. */
    private static String order(IndexSearcher searcher) throws IOException {
        StringBuilder page = new StringBuilder();
        for (int n = 0; n < ORDERED; n++) {
            String id = "valve-" + ThreadLocalRandom.current().nextInt(VALVES);
            if (searcher.count(new TermQuery(new Term("id", id))) > 0) {
                page.append(id).append('\n');
            }
        }
        return page.toString();
    }

    private String work(String habit) throws IOException {
        return switch (habit) {
            case "reader-each-time" -> withOpened(Catalogue::found);
            case "halls-from-documents" -> withKept(Catalogue::hallsFromDocuments);
            case "halls" -> withKept(Catalogue::halls);
            case "order" -> withKept(Catalogue::order);
            default -> withKept(Catalogue::found);
        };
    }

    private void respond(HttpExchange exchange, String habit) throws IOException {
        try (exchange) {
            byte[] body = work(habit).getBytes();
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
        }
    }

    public static void main(String[] values) throws IOException {
        Catalogue catalogue = new Catalogue(Path.of(values[1]));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(values[0])), 128);
        server.createContext("/", exchange -> catalogue.respond(exchange, values[2]));
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.start();
    }
}
