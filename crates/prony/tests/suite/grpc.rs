//! Calls of gRPC against the library that most servers in Python stand on.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

use crate::common::{Real, finish, prony};
use serde_json::Value;
use std::path::Path;

/// Answers with the message that it got, refuses, and counts what is wrong with a message as an error of its own.
const SERVER: &str = r#"
import sys, grpc
from concurrent import futures

def say(message, context):
    assert message == b"m" * 300, message
    return message

def refuse(message, context):
    context.abort(grpc.StatusCode.UNAVAILABLE, "closed today")

class Calls(grpc.GenericRpcHandler):
    def service(self, details):
        found = {"/test.Echo/Say": say, "/test.Echo/Refuse": refuse}.get(details.method)
        return found and grpc.unary_unary_rpc_method_handler(found)

server = grpc.server(futures.ThreadPoolExecutor(4))
server.add_generic_rpc_handlers((Calls(),))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
sys.stdin.read()
"#;

fn call(state: &Path, port: u16, method: &str) -> (Option<i32>, Value) {
    let message = state.join("message");
    std::fs::write(&message, "m".repeat(300)).unwrap();
    let mut command = prony(state);
    command
        .args([
            "load",
            "--json",
            "--grpc",
            "-n",
            "100",
            "-c",
            "2",
            "--streams",
            "4",
        ])
        .args(["--timeout", "30s", "--body-file", message.to_str().unwrap()])
        .arg(format!("http://127.0.0.1:{port}/test.Echo/{method}"));
    let finished = finish(&mut command);
    (finished.code, finished.json())
}

#[test]
fn calls_are_made_and_their_errors_counted_as_errors() {
    let state = tempfile::tempdir().unwrap();
    let server = Real::python(SERVER, "python3-grpcio");
    let (code, document) = call(state.path(), server.port, "Say");
    assert!(matches!(code, Some(0 | 3)), "{document}");
    assert_eq!(document["requests"]["succeeded"], 100, "{document}");
    assert_eq!(document["asked"]["grpc"], true);
    assert_eq!(document["asked"]["http"], "2");
    // The message came back in each response.
    assert!(
        document["bytes"]["received"].as_u64() > Some(30_000),
        "{document}"
    );
    for (method, words) in [("Refuse", "UNAVAILABLE"), ("Nothing", "UNIMPLEMENTED")] {
        let (code, document) = call(state.path(), server.port, method);
        assert_eq!(code, Some(3), "{document}");
        assert_eq!(document["requests"]["succeeded"], 0, "{document}");
        assert_eq!(document["requests"]["failed"]["grpc"], 100, "{document}");
        let why = document["verdict"]["why"].as_str().unwrap();
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let state = tempfile::tempdir().unwrap();
    let mut command = prony(state.path());
    command.args([
        "load",
        "--grpc",
        "-n",
        "1",
        "http://127.0.0.1:1/a/b",
        "http://127.0.0.1:1/c/d",
    ]);
    let finished = finish(&mut command);
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    assert!(finished.stderr.contains("gRPC"), "{}", finished.stderr);
}
