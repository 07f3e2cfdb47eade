//! A load thread allocates nothing after it has started (an invariant of the architecture), and the sides of a traffic
//! program nothing for a connection or a request: an allocator that counts what these threads ask for while they run.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

#[path = "websocket/server.rs"]
mod server;
#[path = "sse/server.rs"]
mod sse;

use record::traffic::{Data, Http, Pace, Protocol, Side, Step, Template, TrafficSpec};
use record::workload::{Check, Template as Filled, Workload, WorkloadBody, WorkloadRequest};
use record::{Arrival, Body, Carrier, Close, Engine, LoadSpec, Nanos, RatePiece, RatePieces};
use stack::device::loopback;
use std::alloc::{GlobalAlloc, Layout, System};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};
use traffic::Load;
use traffic::origin::{Origin, OriginSpec};
use traffic::program::{End, Ends, run};

/// Kernel ids of the threads to watch; a free place is 0.
static WATCHED: [AtomicI32; 8] = [const { AtomicI32::new(0) }; 8];
static ARMED: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    if ARMED.load(SeqCst) {
        // SAFETY: no pointers are passed; the call cannot fail.
        let thread = unsafe { libc::gettid() };
        if WATCHED.iter().any(|watched| watched.load(SeqCst) == thread) {
            ALLOCATIONS.fetch_add(1, SeqCst);
        }
    }
}

// SAFETY: everything is passed on unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

fn watch(threads: &[i32]) {
    for (place, &thread) in WATCHED.iter().zip(threads) {
        place.store(thread, SeqCst);
    }
}

/// Allocations of the load threads between two slices of a load.
fn allocations(spec: &LoadSpec) -> (u64, u64) {
    let mut running = Load::prepare(spec).unwrap().start().unwrap();
    watch(&running.thread_ids());
    running.next_interval().unwrap();
    ALLOCATIONS.store(0, SeqCst);
    ARMED.store(true, SeqCst);
    for _ in 0..3 {
        running.next_interval().unwrap();
    }
    ARMED.store(false, SeqCst);
    let counted = ALLOCATIONS.load(SeqCst);
    running.stopper().stop();
    (counted, running.finish().requests.succeeded)
}

/// The allocator counts for one at a time.
#[test]
fn threads_allocate_nothing_for_what_they_carry() {
    load_threads_allocate_nothing();
    sides_allocate_nothing_for_connections();
}

fn load_threads_allocate_nothing() {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let origin = Origin::start(&OriginSpec::new(listen)).unwrap();
    let url = |path: &str| format!("http://{}{path}", origin.address());
    let closed = |path| LoadSpec {
        connections: 8,
        threads: Some(2),
        duration: Some(Nanos::from_secs(60)),
        ..LoadSpec::new(url(path))
    };
    let each = |spec: &LoadSpec| LoadSpec {
        requests_per_connection: Some(1),
        ..spec.clone()
    };
    let ramp = LoadSpec {
        arrival: Arrival::Constant { per_s: 2_000.0 },
        rate_pieces: RatePieces(vec![RatePiece {
            from_per_s: 1_000.0,
            to_per_s: 3_000.0,
            duration: Nanos::from_secs(60),
        }]),
        ..closed("/")
    };
    let numbered = Filled::parse("/bytes/200?n={{sequence}}&of={{integer 1 9}}").unwrap();
    let mix = LoadSpec {
        workload: Some(Workload::mix(vec![
            WorkloadRequest {
                checks: vec![Check::Length(200, 200)],
                ..WorkloadRequest::get("numbered", numbered)
            },
            WorkloadRequest::get("plain", Filled::parse("/").unwrap()),
        ])),
        ..closed("/")
    };
    let loads = [
        closed("/"),
        closed("/bytes/200k"),
        closed("/status/404"),
        each(&closed("/")),
        LoadSpec {
            pipeline: 4,
            ..closed("/")
        },
        LoadSpec {
            limit_rate: Some(record::Bytes(2_000_000)),
            ..closed("/bytes/200k")
        },
        LoadSpec {
            arrival: Arrival::Poisson {
                per_s: 2_000.0,
                seed: 1,
            },
            ..closed("/")
        },
    ];
    // Where the kernel refuses it there is nothing to count.
    let has_uring = Load::prepare(&LoadSpec {
        engine: Engine::Uring,
        ..closed("/")
    })
    .is_ok();
    let by_uring = [closed("/"), closed("/bytes/200k"), each(&closed("/"))]
        .map(|spec| LoadSpec {
            engine: Engine::Uring,
            ..spec
        })
        .into_iter()
        .filter(|_| has_uring);
    let websocket = LoadSpec {
        url: server::serve(server::echo),
        body: Body::Text("hello".to_owned()),
        ..closed("/")
    };
    let messages = LoadSpec {
        workload: Some(Workload::mix(vec![WorkloadRequest {
            body: WorkloadBody::Text(Filled::parse("{{sequence}} {{uuid}}").unwrap()),
            ..WorkloadRequest::get("numbered", Filled::parse("/").unwrap())
        }])),
        ..websocket.clone()
    };
    let events = LoadSpec {
        url: sse::serve(sse::endless),
        sse: true,
        ..closed("/")
    };
    let events_by_uring = LoadSpec {
        engine: Engine::Uring,
        ..events.clone()
    };
    let events_by_uring = Some(events_by_uring).filter(|_| has_uring);
    let more = [events, ramp, mix, each(&websocket), messages, websocket];
    for spec in loads
        .into_iter()
        .chain(by_uring)
        .chain(more)
        .chain(events_by_uring)
    {
        let (counted, succeeded) = allocations(&spec);
        assert_eq!(counted, 0, "{spec:?}");
        assert!(succeeded > 0 || spec.url.ends_with("404"));
    }
    // The count can see: the watched thread is now this one.
    // SAFETY: no pointers are passed; the call cannot fail.
    watch(&[unsafe { libc::gettid() }]);
    ARMED.store(true, SeqCst);
    drop(std::hint::black_box(vec![1_u8; 100]));
    ARMED.store(false, SeqCst);
    assert!(ALLOCATIONS.load(SeqCst) >= 2);
    origin.stop();
}

fn side(address: &str) -> Side {
    Side {
        transport: Carrier::Tap,
        interface: "wire".to_owned(),
        addresses: vec![address.to_owned()],
        order: Default::default(),
        ports: None,
        networks: Vec::new(),
        gateways: Vec::new(),
        coalesce: Nanos(20_000),
        threads: 1,
        cpu: None,
        cpus: Vec::new(),
        tcp: Default::default(),
        capture: None,
        faults: None,
    }
}

fn end(device: loopback::Loopback, address: &str) -> End {
    End {
        devices: vec![Box::new(device)],
        link: stack::link::Settings {
            interface: "wire".to_owned(),
            mac: [2, 0, 0, 0, 0, 1],
            own: vec![address.parse().unwrap()],
            networks: vec!["10.9.0.0/16".parse().unwrap()],
            gateways: Vec::new(),
        },
    }
}

/// Kernel ids of this process' threads of that name.
fn threads_named(name: &str) -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let named = tasks.filter(|task| {
        let comm = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        comm.trim().starts_with(name)
    });
    named
        .filter_map(|task| task.file_name().to_str()?.parse().ok())
        .collect()
}

fn sides_allocate_nothing_for_connections() {
    let http = |requests| {
        Protocol::Http(Http {
            path: "/".to_owned(),
            method: "GET".to_owned(),
            headers: Vec::new(),
            body_bytes: 0,
            requests,
            response_bytes: 5_000,
            think: Nanos(0),
            expect: None,
        })
    };
    let stream = Protocol::Stream(vec![
        Step::ClientSends(Data::Pattern(3_000)),
        Step::ServerSends(Data::Pattern(10_000)),
    ]);
    let udp = Protocol::Udp {
        request_bytes: 100,
        response_bytes: 200,
        exchanges: 2,
        gap: Nanos(0),
    };
    let template = |port, protocol, pace| Template {
        name: format!("port {port}"),
        targets: vec![SocketAddr::from(([10, 9, 2, 1], port))],
        pace,
        concurrent_max: None,
        count: None,
        protocol,
        close: Close::Fin,
        timeout: Nanos::from_secs(10),
        tls: None,
    };
    let spec = TrafficSpec {
        client: Some(side("10.9.1.1")),
        server: Some(side("10.9.2.1")),
        templates: vec![
            template(80, http(1), Pace::Concurrent(8)),
            template(81, http(10), Pace::Poisson(200.0)),
            template(82, stream, Pace::Concurrent(8)),
            template(53, udp, Pace::Concurrent(4)),
        ],
        ..TrafficSpec::default()
    };
    let (client, server) = loopback::pair(&loopback::Settings::default());
    let ends = Ends {
        client: Some(end(client, "10.9.1.1")),
        server: Some(end(server, "10.9.2.1")),
    };
    let is_over = std::cell::Cell::new(false);
    let mut counted = Vec::new();
    let watch = &mut |interval: &record::traffic::TrafficInterval, _: &[_]| {
        ARMED.store(false, SeqCst);
        counted.push((ALLOCATIONS.swap(0, SeqCst), interval.completed));
        watch(&threads_named("traffic-"));
        ARMED.store(true, SeqCst);
        is_over.set(counted.len() > 3);
    };
    let outcome = run(&spec, ends, &mut || is_over.get(), watch).unwrap();
    ARMED.store(false, SeqCst);
    for template in &outcome.templates {
        assert!(template.completed > 50, "{}", template.name);
        assert_eq!(template.failed, Default::default());
    }
    // The first interval was not watched. What is left is what a side says of itself once a second, and lists that are
    // as long as never before.
    for (allocations, completed) in &counted[2..] {
        assert!(completed > &200, "{counted:?}");
        assert!(allocations < &120, "{counted:?}");
    }
}
