//! Command line and environment as directives: for servers without a file that prony reads, for virtual machines
//! and interpreters.
//!
//! A flag keeps its spelling and has its value as argument; variables that a runtime itself understands have the
//! context `environment`, the options of a Java machine `jvm`, those of Node before its script `node`, the parameters
//! of Varnish `param`. The surprise: whether the word behind a flag is its value cannot be told without knowing the
//! flag; it is taken as the value unless it looks like a flag.

use super::varnish;
use record::{Directive, Server};

/// Variables of runtimes that change how they use the machine.
const VARIABLES: [&str; 29] = [
    "GOMAXPROCS",
    "GOGC",
    "GOMEMLIMIT",
    "GODEBUG",
    "NODE_OPTIONS",
    "NODE_ENV",
    "UV_THREADPOOL_SIZE",
    "UV_USE_IO_URING",
    "WEB_CONCURRENCY",
    "GUNICORN_CMD_ARGS",
    "PYTHONUNBUFFERED",
    "PYTHONASYNCIODEBUG",
    "PYTHONMALLOC",
    "PYTHONDEVMODE",
    "RAILS_ENV",
    "RAILS_MAX_THREADS",
    "RUBY_GC_HEAP_GROWTH_FACTOR",
    "RUBYOPT",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "MALLOC_ARENA_MAX",
    "MALLOC_CONF",
    "LD_PRELOAD",
    "GLIBC_TUNABLES",
    "OMP_NUM_THREADS",
    "TOKIO_WORKER_THREADS",
    "PHP_FCGI_CHILDREN",
    "PHP_FCGI_MAX_REQUESTS",
];

/// Section of variables of the environment.
pub(crate) const ENVIRONMENT: &str = "environment";
/// Section of a Java machine's options.
pub(crate) const JVM: &str = "jvm";
/// Section of Node's own options.
pub(crate) const NODE: &str = "node";
/// Section of Varnish's parameters.
pub(crate) const PARAM: &str = "param";

pub(crate) fn read(server: &mut Server) {
    let pid = server.main_pid;
    let directives = match server.kind.as_str() {
        // Its words are in a title, and its reader has taken what is in them.
        "nginx" | "php-fpm" => Vec::new(),
        "tomcat" | "java" => jvm(&server.command),
        "varnish" => varnish(&server.command),
        "node" => node(&server.command),
        _ => flags(&server.command, &[]),
    };
    server.directives.extend(directives);
    for name in VARIABLES {
        if let Some(value) = super::variable(pid, name) {
            if name.ends_with("_OPTIONS") && name.contains("JAVA") {
                let words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
                server
                    .directives
                    .extend(words.iter().filter_map(|w| jvm_option(w)));
            }
            if name == "NODE_OPTIONS" {
                let words: Vec<String> = std::iter::once(name)
                    .chain(value.split_whitespace())
                    .map(str::to_owned)
                    .collect();
                server.directives.extend(flags(&words, &[NODE]));
            }
            let value = vec![value];
            server.directives.push(given(name, value, &[ENVIRONMENT]));
        }
    }
}

fn given(name: &str, args: Vec<String>, context: &[&str]) -> Directive {
    Directive {
        name: name.to_owned(),
        args,
        context: context.iter().map(|c| (*c).to_owned()).collect(),
        ..Directive::default()
    }
}

/// Flags of a command line. Words before the first flag, such as a script, are positional: they have the name
/// `argument`.
pub(crate) fn flags(command: &[String], context: &[&str]) -> Vec<Directive> {
    let is_flag = |w: &str| {
        w.len() > 1 && w.starts_with('-') && !w[1..].starts_with(|c: char| c.is_ascii_digit())
    };
    let mut found = Vec::new();
    let mut words = command.iter().skip(1).peekable();
    while let Some(word) = words.next() {
        let directive = if !is_flag(word) {
            given("argument", vec![word.clone()], context)
        } else if let Some((name, value)) = word.split_once('=') {
            given(name, vec![value.to_owned()], context)
        } else {
            let value = words.next_if(|w| !is_flag(w));
            given(word, value.cloned().into_iter().collect(), context)
        };
        found.push(directive);
    }
    found
}

/// Options of runtimes whose value is the next word.
const WITH_VALUE: [&str; 14] = [
    "-cp",
    "-classpath",
    "--class-path",
    "-p",
    "--module-path",
    "--add-modules",
    "-r",
    "--require",
    "--import",
    "--loader",
    "--experimental-loader",
    "-C",
    "--conditions",
    "--env-file",
];

/// How many words behind the program's name are options of the runtime: those before the main class or script.
pub(crate) fn runtime_options(kind: &str, command: &[String]) -> usize {
    if !["java", "tomcat", "node"].contains(&kind) {
        return 0;
    }
    let mut at = 1;
    while let Some(word) = command.get(at) {
        if !word.starts_with('-') || ["-jar", "-e", "--eval", "--"].contains(&word.as_str()) {
            break;
        }
        at += match WITH_VALUE.contains(&word.as_str()) {
            true => 2,
            false => 1,
        };
    }
    at.min(command.len().max(1)) - 1
}

/// What an option of a runtime is called, without its value.
pub(crate) fn option_name(word: &str) -> String {
    jvm_option(word).map_or_else(|| word.to_owned(), |option| option.name)
}

/// Node's own options stand before its script.
fn node(command: &[String]) -> Vec<Directive> {
    let own = runtime_options("node", command);
    let (own, rest) = command.split_at((own + 1).min(command.len()));
    let last = own.last().cloned().into_iter();
    let rest: Vec<String> = last.chain(rest.iter().cloned()).collect();
    let mut found = flags(own, &[NODE]);
    found.extend(flags(&rest, &[]));
    found
}

/// Options of the virtual machine stand before the main class, those of the program behind it.
fn jvm(command: &[String]) -> Vec<Directive> {
    let mut found = Vec::new();
    let mut words = command.iter().skip(1);
    while let Some(word) = words.next() {
        if WITH_VALUE.contains(&word.as_str()) {
            found.push(given(
                word,
                words.next().cloned().into_iter().collect(),
                &[JVM],
            ));
        } else if let Some(directive) = jvm_option(word) {
            found.push(directive);
            if word == "-jar" {
                found.extend(
                    words
                        .next()
                        .map(|jar| given("argument", vec![jar.clone()], &[])),
                );
                break;
            }
        } else {
            found.push(given("argument", vec![word.clone()], &[]));
            break;
        }
    }
    found.extend(words.map(|w| given("argument", vec![w.clone()], &[])));
    found
}

/// `-Xmx512m` is `-Xmx` with a value, as are `-XX:A=b` and `-Da=b`; `-XX:+A` is its own name.
fn jvm_option(word: &str) -> Option<Directive> {
    const SIZES: [&str; 4] = ["-Xmx", "-Xms", "-Xmn", "-Xss"];
    if !word.starts_with('-') {
        return None;
    }
    if let Some(size) = SIZES.iter().find(|s| word.starts_with(**s)) {
        return Some(given(size, vec![word[size.len()..].to_owned()], &[JVM]));
    }
    Some(match word.split_once('=') {
        Some((name, value)) => given(name, vec![value.to_owned()], &[JVM]),
        None => given(word, Vec::new(), &[JVM]),
    })
}

/// `-p name=value` is a parameter; the others are flags.
fn varnish(command: &[String]) -> Vec<Directive> {
    let Ok(options) = varnish::options(command) else {
        return flags(command, &[]);
    };
    let directive = |option: &varnish::Given| match option.parameter() {
        Some((name, value)) => given(name, vec![value.to_owned()], &[PARAM]),
        None => {
            let mut words = option.words().into_iter();
            let name = words.next().unwrap_or_default();
            given(&name, words.collect(), &[])
        }
    };
    options.iter().map(directive).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(directives: &[Directive]) -> Vec<String> {
        directives
            .iter()
            .map(|d| format!("{}|{}|{}", d.context.join(","), d.name, d.args.join(",")))
            .collect()
    }

    fn command(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn flags_with_and_without_values() {
        let words = command(
            "python3 /usr/bin/gunicorn -w 4 --threads=2 --preload --bind 127.0.0.1:1 app:x",
        );
        assert_eq!(
            list(&flags(&words, &[])),
            [
                "|argument|/usr/bin/gunicorn",
                "|-w|4",
                "|--threads|2",
                "|--preload|",
                "|--bind|127.0.0.1:1",
                "|argument|app:x",
            ]
        );
        assert_eq!(
            list(&flags(&command("x -n -1 -"), &[])),
            ["|-n|-1", "|argument|-"]
        );
    }

    #[test]
    fn options_of_a_java_machine() {
        let words = command(
            "java -Xmx512m -XX:+UseSerialGC -XX:MaxGCPauseMillis=5 -Da=b=c -cp x.jar Main start -Xmx1g",
        );
        assert_eq!(
            list(&jvm(&words)),
            [
                "jvm|-Xmx|512m",
                "jvm|-XX:+UseSerialGC|",
                "jvm|-XX:MaxGCPauseMillis|5",
                "jvm|-Da|b=c",
                "jvm|-cp|x.jar",
                "|argument|Main",
                "|argument|start",
                "|argument|-Xmx1g",
            ]
        );
        assert_eq!(
            list(&jvm(&command("java -jar a.jar -x"))),
            ["jvm|-jar|", "|argument|a.jar", "|argument|-x"]
        );
    }

    #[test]
    fn options_of_node_stand_before_its_script() {
        let words = command("node -r a.js --max-old-space-size=48 --inspect s.js 80 --port 9");
        assert_eq!(
            list(&node(&words)),
            [
                "node|-r|a.js",
                "node|--max-old-space-size|48",
                "node|--inspect|",
                "|argument|s.js",
                "|argument|80",
                "|--port|9",
            ]
        );
        assert_eq!(list(&node(&command("node"))), [""; 0]);
    }

    #[test]
    fn options_of_a_runtime_end_where_its_program_begins() {
        for (kind, text, want) in [
            ("java", "java -Xmx1g -cp a M -x", 3),
            ("java", "java -jar a.jar -x", 0),
            ("node", "node --inspect s.js --x", 1),
            ("node", "node -r a", 2),
            ("node", "node -r", 1),
            ("node", "node", 0),
            ("python", "python3 -m a", 0),
        ] {
            assert_eq!(runtime_options(kind, &command(text)), want, "{text}");
        }
        assert_eq!(runtime_options("node", &[]), 0);
    }

    #[test]
    fn parameters_of_varnish() {
        let words = command("varnishd -p thread_pools=1 -s malloc,256m -Fpx=2 -t 10");
        assert_eq!(
            list(&varnish(&words)),
            [
                "param|thread_pools|1",
                "|-s|malloc,256m",
                "|-F|",
                "param|x|2",
                "|-t|10"
            ]
        );
    }
}
