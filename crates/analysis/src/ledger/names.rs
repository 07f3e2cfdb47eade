//! What a function does, by the words of its name.
//!
//! In the flow: asked of the functions that runtimes tell and that profiles name, for facts about what a request does
//! each time. The surprise: a name says it in every language and library alike, where a list of functions knows those
//! that somebody has met.

use super::told::function_of;

/// Words of functions that begin or end a connection, alone or with what they begin.
const CONNECTS: [&str; 9] = [
    "connect",
    "reconnect",
    "disconnect",
    "handshake",
    "login",
    "logon",
    "logout",
    "logoff",
    "authenticate",
];
const BEGINS: [&str; 7] = ["create", "get", "make", "new", "open", "establish", "close"];
/// Words of classes of those who ask others, and of what begins and ends one of them.
const CLIENTS: [&str; 12] = [
    "client",
    "connection",
    "session",
    "channel",
    "producer",
    "consumer",
    "transport",
    "pdo",
    "mysqli",
    "smtp",
    "imap",
    "ldap",
];
const ENDS: [&str; 16] = [
    "init",
    "construct",
    "initialize",
    "new",
    "start",
    "stop",
    "open",
    "close",
    "quit",
    "shutdown",
    "dispose",
    "terminate",
    "bind",
    "unbind",
    "exit",
    "destroy",
];

/// Whether a function opens a connection of a client or ends it, by its name: `KazooClient.start`, `PDO::__construct`,
/// `SocketFactory.createConnection`, `Smtp.login`; what is asked on it is another one.
pub(super) fn opens_or_ends(frame: &str) -> bool {
    let Name { class, method } = Name::of(frame);
    let begins = method.iter().any(|word| word == "connection") && has(&method, &BEGINS);
    let ends = method.len() == 1 && has(&method, &ENDS);
    // The start of a visitor's session reads it from where it is kept.
    let of_a_visitor = method == ["start"] && class.iter().any(|word| word == "session");
    has(&method, &CONNECTS) || begins || ends && !of_a_visitor && has(&class, &CLIENTS)
}

/// The words of a function's name and of its class's; of none for what belongs to none.
struct Name {
    class: Vec<String>,
    method: Vec<String>,
}

impl Name {
    fn of(function: &str) -> Self {
        let name = function_of(function);
        // What a function of C++ takes is not what it is.
        let arguments = name.find('(').filter(|_| name.ends_with(')'));
        let name = &name[..arguments.unwrap_or(name.len())];
        let (class, method) = match name.rfind(['.', ':', '#']) {
            Some(at) => (name[..at].trim_end_matches(':'), &name[at + 1..]),
            None => ("", name),
        };
        let class = class.rsplit(['.', '\\', '/', ':']).next().unwrap_or(class);
        Self {
            class: words_in(class),
            method: words_in(method),
        }
    }
}

fn has(words: &[String], any: &[&str]) -> bool {
    words.iter().any(|word| any.contains(&word.as_str()))
}

/// The words that a name is made of, in small letters: of `createTcpConnection`, `create_tcp_connection`, `__init__`,
/// `FMParser`.
fn words_in(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        let mut ends_capitals = || letters.peek().is_some_and(|next| next.is_lowercase());
        let begins = !before.is_alphabetic()
            || letter.is_uppercase() && (before.is_lowercase() || ends_capitals());
        if letter.is_alphabetic() {
            if begins {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.extend(letter.to_lowercase());
            }
        }
        before = letter;
    }
    words
}

/// Words of classes of what is made once and used by all requests, and of what makes one of them.
const KEPT: [&str; 34] = [
    "analyzer",
    "catalog",
    "catalogue",
    "client",
    "compiler",
    "config",
    "configuration",
    "dictionary",
    "driver",
    "engine",
    "environment",
    "factory",
    "grammar",
    "lexer",
    "loader",
    "mapper",
    "parser",
    "pattern",
    "patterns",
    "pool",
    "registry",
    "router",
    "ruleset",
    "schema",
    "schemas",
    "settings",
    "stylesheet",
    "template",
    "templates",
    "tokenizer",
    "translations",
    "translator",
    "validator",
    "wsdl",
];
const MAKES: [&str; 12] = [
    "build",
    "compute",
    "construct",
    "create",
    "deploy",
    "generate",
    "init",
    "initialize",
    "load",
    "make",
    "parse",
    "setup",
];
const CONSTRUCTORS: [&str; 4] = ["init", "construct", "initialize", "new"];

/// Whether a function makes what could be made once, by its name: `Schema.__init__`, `Environment::loadTemplate`,
/// `regexp.MustCompile`, `TransformerFactory.newInstance`; what is done with it is another one.
pub(crate) fn makes(function: &str) -> bool {
    let Name { class, method } = Name::of(function);
    let constructs = match method.as_slice() {
        [word] => CONSTRUCTORS.contains(&word.as_str()),
        [new, instance] => new == "new" && instance == "instance",
        _ => false,
    };
    has(&method, &["compile", "recompile"])
        || constructs && has(&class, &KEPT)
        || has(&method, &MAKES) && has(&method, &KEPT)
}

/// Words of classes that hold rows of what a database answered, and of methods that read them or make objects of them.
const ROWS: [&str; 12] = [
    "cursor",
    "cursors",
    "fetchall",
    "fetchmany",
    "fetchone",
    "fetchrow",
    "hydrate",
    "hydrator",
    "hydration",
    "resultset",
    "rows",
    "rowset",
];
/// Words that mean rows with the word `result`, and with the word `row`.
const RESULTS: [&str; 4] = ["set", "iterator", "proxy", "row"];

/// Whether a function of a class, or of a script, reads rows that a database answered or makes objects of them, by its
/// name: `CursorWrapper.iterate`, `QuerySet._fetch_all`, `database/sql.(*Rows).Scan`, `ObjectHydrator.hydrateRow`.
pub(crate) fn fetches(function: &str) -> bool {
    let Name { class, method } = Name::of(function);
    // Of programs without classes it may be anything: an interpreter fetches operands.
    if class.is_empty() && !function.ends_with(')') {
        return false;
    }
    has(&class, &ROWS)
        || has(&method, &ROWS)
        || has(&class, &["result"]) && has(&class, &RESULTS)
        || has(&method, &["fetch"]) && has(&method, &["all", "row", "assoc", "one", "rows"])
}

/// Words of what turns objects into bytes and back.
const SERIALIZES: [&str; 20] = [
    "deserialization",
    "deserialize",
    "deserializer",
    "marshal",
    "marshaler",
    "marshaller",
    "pickle",
    "pickler",
    "serialization",
    "serialize",
    "serializer",
    "unmarshal",
    "unmarshaler",
    "unmarshaller",
    "unpickle",
    "unpickler",
    "unserialize",
    "unserializer",
    "serializable",
    "deserializable",
];

/// What one who turns objects into bytes does when that is what it is at.
const CODES: [&str; 10] = [
    "decode", "dump", "dumps", "encode", "load", "loads", "read", "retrieve", "store", "write",
];

/// Whether a function turns objects into bytes or back, by its name, or where its class does that (methods of Ruby are
/// told without one, and have that of their file): `Unpickler.load_build`, `retrieve (value_serializer.rb:45)`.
/// What is for JSON has a name of its own.
pub(crate) fn serializes(function: &str) -> bool {
    let Name { mut class, method } = Name::of(function);
    let place = function.split_once(" (").filter(|_| class.is_empty());
    if let Some((path, _)) = place.and_then(|(_, place)| place.split_once(".rb:")) {
        class = words_in(path.rsplit('/').next().unwrap_or(path));
    }
    let json = function.to_ascii_lowercase().contains("json");
    let codes = has(&class, &SERIALIZES) && has(&method, &CODES);
    !json && (has(&method, &SERIALIZES) || codes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_or_ends_a_connection_is_known_by_its_name() {
        for frame in [
            "KazooClient.start (kazoo/client.py:619)",
            "KazooClient.stop (kazoo/client.py:668)",
            "create_tcp_connection (kazoo/handlers/utils.py:191)",
            "PDO::__construct",
            "PgConnection#initialize (pg/connection.rb:9)",
            "org.postgresql.Driver.connect",
            "java.sql.DriverManager.getConnection",
            "SMTP.login (smtplib.py:684)",
            "mysqli_connect",
        ] {
            assert!(opens_or_ends(frame), "{frame}");
        }
        for frame in [
            "KazooClient.get (kazoo/client.py:1142)",
            "Connection.execute (sqlalchemy/engine/base.py:1385)",
            "Session.get (requests/sessions.py:593)",
            "open (io.py:1)",
            "Thread.start (threading.py:938)",
            "File.close",
            "isConnected",
            "PDO::prepare",
            "Symfony\\Component\\HttpFoundation\\Session\\Storage\\NativeSessionStorage::start",
        ] {
            assert!(!opens_or_ends(frame), "{frame}");
        }
    }

    #[test]
    fn what_reads_rows_is_known_by_its_name() {
        for function in [
            "ModelObjectCursorWrapper.process_row (peewee.py:7591)",
            "ResultIterator.next (peewee.py:4437)",
            "QuerySet._fetch_all (django/db/models/query.py:1880)",
            "cursor_iter (django/db/models/sql/compiler.py:1700)",
            "database/sql.(*Rows).Scan",
            "org.postgresql.jdbc.PgResultSet.getString",
            "Doctrine\\ORM\\Internal\\Hydration\\ObjectHydrator::hydrateRowData",
            "PDOStatement::fetchAll",
            "DBI::st::fetchrow_hashref",
        ] {
            assert!(fetches(function), "{function}");
        }
        for function in [
            "zend_fetch_dimension_address_R",
            "fetch_row",
            "ActionResult.execute",
            "ActiveSupport::Cache::Store#fetch (cache.rb:300)",
            "Model.save (peewee.py:6609)",
            "java.net.http.HttpClient.send",
        ] {
            assert!(!fetches(function), "{function}");
        }
    }

    #[test]
    fn what_turns_objects_into_bytes_is_known_by_its_name() {
        for function in [
            "retrieve (dalli/protocol/value_serializer.rb:45)",
            "Unpickler.load_build (pickle.py:1718)",
            "PickleSerializer.loads (django/core/cache/backends/redis.py:22)",
            "org.springframework.core.serializer.DefaultDeserializer.deserialize",
            "google.golang.org/protobuf/proto.Unmarshal",
            "unserialize",
        ] {
            assert!(serializes(function), "{function}");
        }
        for function in [
            "encoding/json.Unmarshal",
            "JSONSerializer.dumps (django/core/signing.py:100)",
            "fetch (dalli/client.rb:110)",
            "java.util.concurrent.locks.LockSupport.park",
            "serial_number (orders.rb:4)",
            "Order.total (serializers/order.py:9)",
            "ListSerializer.data (rest_framework/serializers.py:750)",
        ] {
            assert!(!serializes(function), "{function}");
        }
    }

    #[test]
    fn what_makes_what_could_be_kept_is_known_by_its_name() {
        for function in [
            "Schema.__init__ (graphene/types/schema.py:52)",
            "Render._load_template (web/template.py:960)",
            "Twig\\Environment::loadTemplate",
            "HTML::Template::new (HTML/Template.pm:1050)",
            "regexp.MustCompile",
            "github.com/gin-gonic/gin/render.HTMLDebug.loadTemplate",
            "freemarker.core.FMParser.<init>",
            "javax.xml.transform.TransformerFactory.newInstance",
            "build_schema (graphql/utilities/build_ast_schema.py:30)",
        ] {
            assert!(makes(function), "{function}");
        }
        for function in [
            "Template.render (django/template/base.py:170)",
            "ClientSession.get (aiohttp/client.py:900)",
            "Response.__init__ (flask/wrappers.py:10)",
            "freemarker.template.Template.process",
            "getConfiguration",
            "Document.__init__",
            "loads (json/__init__.py:299)",
            "HttpParser.feed",
            "mysql_parse(THD*, char*, unsigned int, Parser_state*)",
            "net/http.(*Transport).RoundTrip",
        ] {
            assert!(!makes(function), "{function}");
        }
    }
}
