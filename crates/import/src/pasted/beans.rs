//! Dumps of threads as JSON: Spring actuator's `/actuator/threaddump`, older Boot's `/dump`, JMX through jolokia.
//!
//! They become lines as jstack prints them, which `dumps` reads. The surprise is what is pasted: a part of the JSON,
//! cut off at both ends, so that names and values are taken in their order and no braces are counted.

/// Longer values are data.
const LONGEST: usize = 500;

/// A thread whose values are being read.
#[derive(Default)]
struct Thread {
    name: String,
    state: String,
    lock: Option<String>,
    owner: Option<String>,
    frames: Vec<String>,
}

/// A frame whose values are being read.
#[derive(Default)]
struct Frame {
    class: Option<String>,
    method: Option<String>,
    file: String,
    line: String,
}

/// All threads of a text in JSON, as lines.
pub(super) fn lines(lines: &[&str]) -> Vec<String> {
    let any = |name: &str| lines.iter().any(|l| l.contains(name));
    if !any("\"threadState\"") || !any("\"methodName\"") {
        return Vec::new();
    }
    let mut all: Vec<Thread> = Vec::new();
    let mut frame = Frame::default();
    let mut in_stack = false;
    for (name, value) in lines.iter().flat_map(|line| values(line)) {
        if name == "threadName" {
            all.push(Thread::default());
            (frame, in_stack) = (Frame::default(), false);
        }
        let Some(thread) = all.last_mut() else {
            continue;
        };
        let told = value.clone().filter(|v| !v.is_empty() && v != "null");
        match name {
            "threadName" => thread.name = told.unwrap_or_default(),
            "threadState" => thread.state = told.unwrap_or_default(),
            "lockName" => thread.lock = told,
            "lockOwnerName" => thread.owner = told,
            "stackTrace" => in_stack = true,
            "lockedMonitors" | "lockedSynchronizers" | "lockInfo" => in_stack = false,
            "className" if in_stack => frame.class = told,
            "methodName" if in_stack => frame.method = told,
            "fileName" if in_stack => frame.file = told.unwrap_or_default(),
            "lineNumber" if in_stack => frame.line = told.unwrap_or_default(),
            _ => {}
        }
        if let (Some(class), Some(method)) = (&frame.class, &frame.method) {
            let place = match frame.line.starts_with('-') || frame.file.is_empty() {
                true => "Native Method".to_owned(),
                false => format!("{}:{}", frame.file, frame.line),
            };
            thread.frames.push(format!("at {class}.{method}({place})"));
            frame = Frame::default();
        }
    }
    all.into_iter().flat_map(as_jstack).collect()
}

fn as_jstack(thread: Thread) -> Vec<String> {
    let mut done = vec![
        format!("\"{}\" prio=5 tid=0x0 nid=0x0", thread.name),
        format!("java.lang.Thread.State: {}", thread.state),
    ];
    if let Some(lock) = thread.lock.filter(|_| thread.state == "BLOCKED") {
        let held = thread.owner.map(|by| format!(", held by {by}"));
        done.push(format!(
            "- waiting to lock {lock}{}",
            held.unwrap_or_default()
        ));
    }
    done.extend(thread.frames);
    done.push(String::new());
    done
}

/// Names of a line with what stands behind their colons: a string, a word, or nothing where a list begins.
fn values(line: &str) -> Vec<(&str, Option<String>)> {
    let mut done = Vec::new();
    let mut rest = line;
    while let Some((_, behind)) = rest.split_once('"') {
        let Some((name, behind)) = behind.split_once('"') else {
            break;
        };
        rest = behind;
        let Some(value) = behind.trim_start().strip_prefix(':') else {
            continue;
        };
        let value = value.trim_start();
        let text = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').map(|(text, after)| {
                rest = after;
                text
            }),
            None => value.split([',', '}', ']', '[', '{']).next().map(str::trim),
        };
        let text = text.map(|t| t.chars().take(LONGEST).collect());
        done.push((name, text));
    }
    done
}
