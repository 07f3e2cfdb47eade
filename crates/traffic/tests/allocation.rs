//! A load thread allocates nothing after it has started (an invariant of the architecture): an allocator
//! that counts what the load threads ask for while a load runs.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

use record::{Arrival, LoadSpec, Nanos};
use std::alloc::{GlobalAlloc, Layout, System};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};
use traffic::Load;
use traffic::origin::{Origin, OriginSpec};

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

#[test]
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
    let loads = [
        closed("/"),
        closed("/bytes/200k"),
        closed("/status/404"),
        LoadSpec {
            requests_per_connection: Some(1),
            ..closed("/")
        },
        LoadSpec {
            pipeline: 4,
            ..closed("/")
        },
        LoadSpec {
            arrival: Arrival::Poisson {
                per_s: 2_000.0,
                seed: 1,
            },
            ..closed("/")
        },
    ];
    for spec in loads {
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
