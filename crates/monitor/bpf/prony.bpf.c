// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The kernel's side of the signature pass: it counts what the watched processes do, in maps that user
// space reads once, at the end. Nothing is sent event by event but a few first bytes of requests.
//
// The surprise: there is no vmlinux.h. The few kernel structures that are read are declared below with only
// the members that are used; the loader moves each access to where the running kernel has the
// member (CO-RE). So one object serves x86_64 and aarch64 and kernels of any configuration.
// Only BTF tracepoints and uprobes are used: some kernels refuse fentry and kprobes.

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#define NAME 96
#define HEAD 512
#define PIECE 64 // of a buffer that follows the first
#define PIECES 24
#define REFUSAL 32 // first bytes of an answer that are looked at
#define REFUSAL_CODE 11
#define ANSWER_BEGINS 16
#define ANSWER_ENDS 32
#define IOVS 128
#define NO_CALL (-1)

// ---- The kernel's structures, only what is read of them.

#define CORE __attribute__((preserve_access_index))

struct tcp_sock { u64 bytes_sent; } CORE;
struct qstr { const unsigned char *name; } CORE;
struct dentry { struct qstr d_name; } CORE;
struct path { struct dentry *dentry; } CORE;
struct super_block { unsigned long s_magic; } CORE;
struct inode { u16 i_mode; struct super_block *i_sb; } CORE;
struct file {
	void *private_data;
	struct inode *f_inode;
	unsigned int f_flags;
	struct path f_path;
} CORE;
struct fdtable { unsigned int max_fds; struct file **fd; } CORE;
struct files_struct { struct fdtable *fdt; } CORE;
struct task_struct {
	int pid;
	int tgid;
	struct files_struct *files;
} CORE;
struct task_struct___state { unsigned int __state; } CORE;
struct task_struct___old { long state; } CORE;
struct in6_addr { u8 bytes[16]; };
struct sock_common {
	u16 skc_family;
	volatile unsigned char skc_state;
	u16 skc_dport;
	u16 skc_num;
	u32 skc_daddr;
	struct in6_addr skc_v6_daddr;
} CORE;
struct sock {
	struct sock_common __sk_common;
	u16 sk_type;
	int sk_err;
} CORE;
struct inet_sock { u16 inet_sport; } CORE;
struct socket { struct sock *sk; } CORE;
struct sk_buff { unsigned int len; unsigned char *data; } CORE;
struct sockaddr_un { u16 sun_family; char sun_path[108]; };
struct unix_address { int len; struct sockaddr_un name[0]; } CORE;
struct unix_sock { struct unix_address *addr; struct sock *peer; } CORE;
struct pt_regs___x86 {
	unsigned long di, si, dx, r10, r8, sp;
} CORE;
struct pt_regs___arm { u64 regs[31]; } CORE;

// ---- What is shared with user space; probe/layout.rs declares the same.

enum class {
	CLASS_NONE, CLASS_CLIENT, CLASS_UPSTREAM, CLASS_LISTENER, CLASS_UDP, CLASS_UNIX,
	CLASS_FILE, CLASS_PIPE, CLASS_POLL, CLASS_OTHER, CLASS_UNKNOWN,
};

enum asked { ASKED_NOT, ASKED_ARG2, ASKED_IOV, ASKED_MSG, ASKED_ARG3, ASKED_ARG4 };
enum dir { DIR_NONE, DIR_READ, DIR_WRITE };
enum kind { KIND_PLAIN, KIND_OPEN, KIND_STAT, KIND_SYNC, KIND_CONNECT, KIND_SENDFILE, KIND_CLOSE };
enum wait { WAIT_SLEEPING, WAIT_DISK, WAIT_RUNNABLE };

// What a system call's arguments mean; user space fills it in for its architecture.
struct call {
	u8 fd;    // 1 + index of the argument that is a descriptor, 0 for none
	u8 path;  // 1 + index of the argument that is a path, 0 for none
	u8 asked; // enum asked
	u8 dir;   // enum dir
	u8 kind;  // enum kind
	u8 unused[3];
};

struct thread {
	u64 entered_ns;
	u64 off_ns; // when it left the CPU, 0 while on it
	u64 asked;
	u64 user;   // user address of the first buffer, of the path or of the socket address
	u64 sk;
	u32 target;
	s32 nr;     // NO_CALL outside a system call
	s32 fd;
	s32 fd_in;
	u32 user_len;
	u8 class;
	u8 state;   // enum wait
	u8 seeded;  // put in by user space: the call began before the window
	u8 asked_known;
	u64 vec;    // user address of the vector whose first buffer that is, 0 for none
	u64 vecs;
};

struct call_key { u32 target; u16 nr; u16 class; };
struct call_stats {
	u64 calls, time_ns, bytes, asked, full, partial, zero;
	u64 sizes[32];
};
struct count_key { u32 target; u16 nr; u16 class; u64 value; };
struct wait_key { u32 target; s32 nr; u16 class; u16 state; };
struct wait_stats { u64 waits, total_ns, max_ns; u64 lengths[32]; };
struct file_key { u32 target; char name[NAME]; };
struct file_stats {
	u64 opens, missing, stats, reads, read_bytes, writes, written_bytes, syncs;
	u64 flags;
};
struct peer { u32 target; u16 family; u16 port; u8 address[108]; };
struct peer_stats {
	u64 connects, requests, wait_ns, written_bytes, read_bytes, answered_ns;
	u64 waits[32];
	u64 answered[32];
};
struct peer_error { struct peer peer; u32 error; };
struct sock_entry {
	struct peer peer;
	u32 wrote; // the last thing was a write
	u32 failed;
	u32 is_upstream;
	u32 kept; // what was asked last is in QUESTIONS
	u32 then; // and is a statement that the next question executes: so many it stands for
	u64 written_ns;
	u64 arrived_ns; // the first data since the last read, 0 while there is none
};
// What a client has sent since it was last answered.
struct asking {
	u32 bytes;
	u8 asks;
	u8 tls;    // its first bytes were a TLS handshake's
	u8 record; // type of the first TLS record
	u8 unused;
};
struct sock_stats { u64 established, closed_by_us, closed_by_peer, resets_sent, resets_unused, resets_received, retransmits; };
struct class_key { u32 target; u32 class; };
struct process_counts { u64 forks, execs; };
// One piece more than is read, so that the verifier sees the last one's end.
struct head { u32 target; u16 class; u16 dir; u32 len; u8 bytes[HEAD + PIECE]; };
// An answer by which a server behind refuses what it was asked: a protocol, and what it says is the reason.
struct refusal { u32 target; u8 protocol; u8 code[REFUSAL_CODE]; };
// Some of what upstreams are asked, with the answer's first read: its size, how it begins and how it ends.
struct question {
	struct peer peer;
	u32 stands_for; // so many questions
	u64 wait_ns;
	u32 answer;     // bytes
	u32 len;
	u8 begins[ANSWER_BEGINS];
	u8 ends[ANSWER_ENDS];
	u8 bytes[HEAD];
};
struct text { u64 from, to; };
struct alloc_key { u32 target; u32 site; };

#define MAP(name, maptype, entries, k, v, flags) \
	struct { \
		__uint(type, maptype); \
		__uint(max_entries, entries); \
		__uint(map_flags, flags); \
		__type(key, k); \
		__type(value, v); \
	} name SEC(".maps")

// Memory is taken as entries appear: most targets need few of them.
MAP(TGIDS, BPF_MAP_TYPE_HASH, 65536, u32, u32, BPF_F_NO_PREALLOC);
MAP(THREADS, BPF_MAP_TYPE_HASH, 131072, u32, struct thread, BPF_F_NO_PREALLOC);
MAP(PORTS, BPF_MAP_TYPE_HASH, 4096, u32, u32, BPF_F_NO_PREALLOC);
MAP(TABLE, BPF_MAP_TYPE_ARRAY, 1024, u32, struct call, 0);
MAP(CALLS, BPF_MAP_TYPE_PERCPU_HASH, 8192, struct call_key, struct call_stats, BPF_F_NO_PREALLOC);
MAP(ERRORS, BPF_MAP_TYPE_HASH, 8192, struct count_key, u64, BPF_F_NO_PREALLOC);
MAP(SIZES, BPF_MAP_TYPE_HASH, 131072, struct count_key, u64, BPF_F_NO_PREALLOC);
MAP(WAITS, BPF_MAP_TYPE_PERCPU_HASH, 8192, struct wait_key, struct wait_stats, BPF_F_NO_PREALLOC);
MAP(FILES, BPF_MAP_TYPE_HASH, 16384, struct file_key, struct file_stats, BPF_F_NO_PREALLOC);
MAP(PEERS, BPF_MAP_TYPE_HASH, 4096, struct peer, struct peer_stats, BPF_F_NO_PREALLOC);
MAP(PEER_ERRORS, BPF_MAP_TYPE_HASH, 8192, struct peer_error, u64, BPF_F_NO_PREALLOC);
MAP(SOCKS, BPF_MAP_TYPE_LRU_HASH, 65536, u64, struct sock_entry, 0);
MAP(ASKING, BPF_MAP_TYPE_LRU_HASH, 65536, u64, struct asking, 0);
MAP(TAKEN, BPF_MAP_TYPE_HASH, 256, u32, u64, BPF_F_NO_PREALLOC);
MAP(SOCK_STATS, BPF_MAP_TYPE_HASH, 1024, struct class_key, struct sock_stats, BPF_F_NO_PREALLOC);
MAP(PROCESSES, BPF_MAP_TYPE_HASH, 256, u32, struct process_counts, BPF_F_NO_PREALLOC);
MAP(HEAD_COUNTS, BPF_MAP_TYPE_HASH, 1024, struct class_key, u64, BPF_F_NO_PREALLOC);
MAP(REFUSALS, BPF_MAP_TYPE_HASH, 1024, struct refusal, u64, BPF_F_NO_PREALLOC);
MAP(ASKED, BPF_MAP_TYPE_HASH, 256, u32, u64, BPF_F_NO_PREALLOC);
MAP(QUESTIONS, BPF_MAP_TYPE_LRU_HASH, 1024, u64, struct question, 0);
MAP(TEXTS, BPF_MAP_TYPE_HASH, 65536, u32, struct text, BPF_F_NO_PREALLOC);
MAP(ALLOCS, BPF_MAP_TYPE_PERCPU_HASH, 4096, struct alloc_key, u64, BPF_F_NO_PREALLOC);
MAP(LOST, BPF_MAP_TYPE_PERCPU_ARRAY, 1, u32, u64, 0);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 21);
} HEADS SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} ANSWERED SEC(".maps");

// ---- Small tools.

static __always_inline void add(u64 *to, u64 amount)
{
	// Also in per-CPU values: a program may be interrupted by the same program of another kind.
	__sync_fetch_and_add(to, amount);
}

static __always_inline void lose(void)
{
	u32 zero = 0;
	u64 *lost = bpf_map_lookup_elem(&LOST, &zero);
	if (lost)
		add(lost, 1);
}

// Looked at once by the verifier: inline, every caller has seven ways through it.
__noinline u32 log2_of(u64 value)
{
	u32 log = 0;
	if (value >> 32) { value >>= 32; log += 32; }
	if (value >> 16) { value >>= 16; log += 16; }
	if (value >> 8) { value >>= 8; log += 8; }
	if (value >> 4) { value >>= 4; log += 4; }
	if (value >> 2) { value >>= 2; log += 2; }
	if (value >> 1) log += 1;
	return log > 31 ? 31 : log;
}

// The value of a key, which is put in with zeros when it is not there yet.
#define FIND(map, key, zeros) ({ \
	void *found = bpf_map_lookup_elem(&map, key); \
	if (!found) { \
		bpf_map_update_elem(&map, key, zeros, BPF_NOEXIST); \
		found = bpf_map_lookup_elem(&map, key); \
		if (!found) \
			lose(); \
	} \
	found; \
})

static const struct call_stats no_calls;
static const struct wait_stats no_waits;
static const struct file_stats no_files;
static const struct peer_stats no_peers;
static const struct sock_stats no_socks;
static const struct process_counts no_processes;
static const u64 no_count;
static const struct question no_question;

static __always_inline void count(void *map, void *key)
{
	u64 *n = bpf_map_lookup_elem(map, key);
	if (!n) {
		bpf_map_update_elem(map, key, &no_count, BPF_NOEXIST);
		n = bpf_map_lookup_elem(map, key);
	}
	if (n)
		add(n, 1);
	else
		lose();
}

static __always_inline u64 argument(void *regs, u32 index)
{
	if (bpf_core_field_exists(((struct pt_regs___x86 *)0)->di)) {
		struct pt_regs___x86 *r = regs;
		switch (index) {
		case 0: return BPF_CORE_READ(r, di);
		case 1: return BPF_CORE_READ(r, si);
		case 2: return BPF_CORE_READ(r, dx);
		case 3: return BPF_CORE_READ(r, r10);
		default: return BPF_CORE_READ(r, r8);
		}
	} else {
		struct pt_regs___arm *r = regs;
		switch (index) {
		case 0: return BPF_CORE_READ(r, regs[0]);
		case 1: return BPF_CORE_READ(r, regs[1]);
		case 2: return BPF_CORE_READ(r, regs[2]);
		case 3: return BPF_CORE_READ(r, regs[3]);
		default: return BPF_CORE_READ(r, regs[4]);
		}
	}
}

static __always_inline struct thread *thread_of(u32 tid, u32 target)
{
	struct thread *t = bpf_map_lookup_elem(&THREADS, &tid);
	if (t)
		return t;
	struct thread fresh = {};
	fresh.target = target;
	fresh.nr = NO_CALL;
	bpf_map_update_elem(&THREADS, &tid, &fresh, BPF_NOEXIST);
	t = bpf_map_lookup_elem(&THREADS, &tid);
	if (!t)
		lose();
	return t;
}

// ---- What a descriptor leads to.

static __always_inline struct file *file_of(struct task_struct *task, s32 fd)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file *file = 0;
	if (fd < 0 || !table || (u32)fd >= BPF_CORE_READ(table, max_fds))
		return 0;
	struct file **slots = BPF_CORE_READ(table, fd);
	bpf_probe_read_kernel(&file, sizeof(file), slots + fd);
	return file;
}

static __always_inline u8 class_of_socket(struct sock *sk, u32 target)
{
	u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (family == 1)
		return CLASS_UNIX;
	if (family != 2 && family != 10)
		return CLASS_OTHER;
	if (BPF_CORE_READ(sk, sk_type) != 1)
		return CLASS_UDP;
	u32 port = BPF_CORE_READ(sk, __sk_common.skc_num);
	if (BPF_CORE_READ(sk, __sk_common.skc_state) == 10) {
		// A listener that nobody told of: what is accepted from it is a client too.
		bpf_map_update_elem(&PORTS, &port, &target, BPF_NOEXIST);
		return CLASS_LISTENER;
	}
	u32 *owner = bpf_map_lookup_elem(&PORTS, &port);
	return owner && *owner == target ? CLASS_CLIENT : CLASS_UPSTREAM;
}

static __always_inline u8 class_of(struct task_struct *task, s32 fd, u32 target, u64 *sk_out)
{
	*sk_out = 0;
	if (fd < 0)
		return CLASS_NONE; // AT_FDCWD
	struct file *file = file_of(task, fd);
	if (!file)
		return CLASS_UNKNOWN;
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	u16 mode = BPF_CORE_READ(inode, i_mode) & 0170000;
	if (mode == 0140000) {
		struct socket *socket = BPF_CORE_READ(file, private_data);
		struct sock *sk = BPF_CORE_READ(socket, sk);
		if (!sk)
			return CLASS_UNKNOWN;
		*sk_out = (u64)sk;
		return class_of_socket(sk, target);
	}
	// Some kernels give anonymous inodes no type, later ones that of a regular file.
	if (BPF_CORE_READ(inode, i_sb, s_magic) == 0x09041934)
		return CLASS_POLL;
	switch (mode) {
	case 0100000: return CLASS_FILE;
	case 0010000: return CLASS_PIPE;
	default: return CLASS_OTHER;
	}
}

// ---- How much a call asks for.

struct vec { u64 base; u64 len; };
struct msg { u64 name; u32 name_len; u32 pad; u64 iov; u64 iov_len; };

static __always_inline u8 sum_vec(u64 address, u64 entries, u64 *sum, struct vec *first)
{
	struct vec v;
	u64 total = 0;
	if (entries > IOVS)
		return 0;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < IOVS; i++) {
		if (i >= entries)
			break;
		if (bpf_probe_read_user(&v, sizeof(v), (void *)(address + i * sizeof(v))))
			return 0;
		if (i == 0)
			*first = v;
		total += v.len;
	}
	*sum = total;
	return 1;
}

static __always_inline void ask(struct thread *t, const struct call *call, void *regs)
{
	u64 address = argument(regs, 1);
	u64 entries = argument(regs, 2);
	struct msg m;
	t->asked = 0;
	t->asked_known = 0;
	switch (call->asked) {
	case ASKED_ARG2:
		t->user = address;
		t->user_len = entries > HEAD ? HEAD : entries;
		t->asked = entries;
		t->asked_known = 1;
		return;
	case ASKED_ARG3:
		t->asked = argument(regs, 3);
		t->asked_known = 1;
		return;
	case ASKED_ARG4:
		t->asked = argument(regs, 4);
		t->asked_known = 1;
		return;
	case ASKED_MSG:
		if (bpf_probe_read_user(&m, sizeof(m), (void *)address))
			return;
		address = m.iov;
		entries = m.iov_len;
		break;
	case ASKED_IOV:
		break;
	default:
		return;
	}
	u64 sum = 0;
	struct vec first = {};
	t->vec = address;
	t->vecs = entries;
	if (sum_vec(address, entries, &sum, &first)) {
		t->asked = sum;
		t->asked_known = 1;
	}
	t->user = first.base;
	t->user_len = first.len > HEAD ? HEAD : first.len;
}

// ---- Peers.

static __always_inline int peer_of_sock(struct sock *sk, u32 target, struct peer *peer)
{
	u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
	peer->target = target;
	peer->family = family;
	if (family == 2) {
		u32 address = BPF_CORE_READ(sk, __sk_common.skc_daddr);
		__builtin_memcpy(peer->address, &address, 4);
	} else if (family == 10) {
		bpf_core_read(peer->address, 16, &sk->__sk_common.skc_v6_daddr);
	} else {
		// Only one that was connected has a peer with a name.
		struct unix_sock *unix_sk = (struct unix_sock *)sk;
		struct unix_sock *other = (struct unix_sock *)BPF_CORE_READ(unix_sk, peer);
		if (!other)
			return 0;
		struct unix_address *address = BPF_CORE_READ(other, addr);
		if (!address)
			return 0;
		bpf_probe_read_kernel_str(peer->address, sizeof(peer->address),
					  (void *)&address->name + sizeof(u16));
		return peer->address[0] != 0;
	}
	peer->port = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
	return peer->port != 0;
}

static __always_inline int peer_of_address(u64 user, u32 len, u32 target, struct peer *peer)
{
	u8 raw[28] = {};
	u16 family;
	bpf_probe_read_user(&family, sizeof(family), (void *)user);
	peer->target = target;
	peer->family = family;
	if (family == 1) {
		if (len <= 2)
			return 0;
		return bpf_probe_read_user_str(peer->address, sizeof(peer->address), (void *)(user + 2)) > 1;
	}
	if (family == 2) {
		if (bpf_probe_read_user(raw, 16, (void *)user))
			return 0;
		__builtin_memcpy(peer->address, raw + 4, 4);
	} else if (family == 10) {
		if (bpf_probe_read_user(raw, 28, (void *)user))
			return 0;
		__builtin_memcpy(peer->address, raw + 8, 16);
	} else {
		return 0;
	}
	peer->port = (u16)raw[2] << 8 | raw[3];
	return 1;
}

static __always_inline void count_peer_error(struct peer *peer, u32 error)
{
	struct peer_error key = {};
	__builtin_memcpy(&key.peer, peer, sizeof(*peer));
	key.error = error;
	count(&PEER_ERRORS, &key);
}

static __always_inline struct sock_entry *entry_of(u64 sk, u32 target)
{
	struct sock_entry *entry = bpf_map_lookup_elem(&SOCKS, &sk);
	if (entry && entry->peer.target == target)
		return entry;
	struct sock_entry fresh = {};
	fresh.is_upstream = peer_of_sock((struct sock *)sk, target, &fresh.peer);
	fresh.peer.target = target;
	bpf_map_update_elem(&SOCKS, &sk, &fresh, BPF_ANY);
	return bpf_map_lookup_elem(&SOCKS, &sk);
}

// A connect begins: whatever lay at this socket's address before is another connection.
static __always_inline void connecting(struct thread *t)
{
	struct sock_entry fresh = {};
	u64 sk = t->sk;
	if (!sk || !peer_of_address(t->user, t->user_len, t->target, &fresh.peer))
		return;
	u32 state = BPF_CORE_READ((struct sock *)sk, __sk_common.skc_state);
	// Asked again how a connect in progress went.
	if (t->class == CLASS_UPSTREAM && state != 7)
		return;
	fresh.is_upstream = 1;
	bpf_map_update_elem(&SOCKS, &sk, &fresh, BPF_ANY);
	struct peer_stats *stats = FIND(PEERS, &fresh.peer, &no_peers);
	if (stats)
		add(&stats->connects, 1);
}

static __always_inline void connected(struct thread *t, u32 error)
{
	u64 sk = t->sk;
	// EINTR, EAGAIN only for Unix, EALREADY, EINPROGRESS, EISCONN
	if (!sk || error == 4 || error == 114 || error == 115 || error == 106)
		return;
	struct sock_entry *entry = bpf_map_lookup_elem(&SOCKS, &sk);
	if (!entry || entry->failed)
		return;
	entry->failed = 1;
	struct peer peer;
	__builtin_memcpy(&peer, &entry->peer, sizeof(peer));
	count_peer_error(&peer, error);
}

enum protocol { POSTGRESQL = 1, MYSQL, REDIS, MEMCACHED };

// Does a message say that all went well so far? ParseComplete, BindComplete, CloseComplete and NoData of PostgreSQL have
// no body.
static __always_inline int is_bare_ok(const u8 *b)
{
	return (b[0] == '1' || b[0] == '2' || b[0] == '3' || b[0] == 'n') && !b[1] && !b[2] && !b[3] && b[4] == 4;
}

static __always_inline int is_upper(u8 c)
{
	return c >= 'A' && c <= 'Z';
}

// The first read of an answer, which has `bytes`: behind them a reader's buffer holds what was read before. A function that
// the verifier looks at by itself; inside its caller there are too many ways.
__noinline int count_refusal(u64 user, u64 bytes, u32 target)
{
	u8 b[REFUSAL] = {};
	struct refusal key = { .target = target };
	if (bytes < 7 || bpf_probe_read_user(b, sizeof(b), (void *)user))
		return 0;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < 3 && bytes > REFUSAL + 5 && is_bare_ok(b); i++) {
		user += 5;
		bytes -= 5;
		if (bpf_probe_read_user(b, sizeof(b), (void *)user))
			return 0;
	}
	if (b[0] == 'E' && !b[1] && !b[2] && b[5] == 'S') {
		// ErrorResponse: length, severity as it is shown and as it is (five letters each where nothing translates them),
		// and the SQLSTATE.
		key.protocol = POSTGRESQL;
		if (bytes >= 25 && b[12] == 'V' && b[19] == 'C')
			__builtin_memcpy(key.code, b + 20, 5);
	} else if (b[4] == 0xff && b[7] == '#' && b[3] && bytes >= 13 && ((u32)b[0] | (u32)b[1] << 8) + 4 == bytes) {
		// ERR_Packet: length, number in the conversation, 0xff, the error's number.
		key.protocol = MYSQL;
		key.code[0] = b[5];
		key.code[1] = b[6];
	} else if (b[0] == '-' && is_upper(b[1]) && is_upper(b[2])) {
		key.protocol = REDIS;
#pragma clang loop unroll(full)
		for (u32 i = 0; i < REFUSAL_CODE; i++) {
			if (!is_upper(b[1 + i]) || 1 + i >= bytes)
				break;
			key.code[i] = b[1 + i];
		}
	} else if (b[0] == 'S' && b[1] == 'E' && b[2] == 'R' && b[5] == 'R' && b[6] == '_' && b[11] == 'R' && bytes >= 24) {
		// SERVER_ERROR and the beginning of why.
		key.protocol = MEMCACHED;
		__builtin_memcpy(key.code, b + 13, REFUSAL_CODE);
	} else {
		return 0;
	}
	count(&REFUSALS, &key);
	return 1;
}

// ---- What upstreams are asked.

// How many questions one stands for that is kept now; 0 for one that is not. The first ones all, then some by chance:
// every sixteenth might be always the same one of a request.
static __always_inline u32 chosen(u32 target)
{
	u64 *asked = FIND(ASKED, &target, &no_count);
	if (!asked)
		return 0;
	u64 n = *asked;
	add(asked, 1);
	u32 of = n < 256 ? 1 : n < 16384 ? 16 : 256;
	return bpf_get_prandom_u32() % of ? 0 : of;
}

// Is it a message of PostgreSQL about what has no name: `Parse` (statement), `Bind` (portal, statement)?
static __always_inline int is_unnamed(const u8 *b, u8 kind)
{
	return b[0] == kind && !b[1] && !b[5] && (kind == 'P' || !b[6]);
}

// Keeps a question that stands for `by_chance`, or the execution of a statement that was kept when it was prepared, a
// turn before: then it stands for `then`. A function that the verifier looks at by itself, as above.
__noinline int keep_question(u32 tid, u64 bytes, u32 by_chance, u32 then)
{
	u8 first[8] = {};
	struct thread *t = bpf_map_lookup_elem(&THREADS, &tid);
	if (!t || bpf_probe_read_user(first, sizeof(first), (void *)t->user))
		return 0;
	u64 sk = t->sk;
	struct sock_entry *entry = bpf_map_lookup_elem(&SOCKS, &sk);
	if (!entry)
		return 0;
	if (is_unnamed(first, 'B')) {
		struct question *q = then ? bpf_map_lookup_elem(&QUESTIONS, &sk) : 0;
		if (q)
			q->stands_for = then;
		return q != 0;
	}
	if (!by_chance)
		return 0;
	bpf_map_update_elem(&QUESTIONS, &sk, &no_question, BPF_ANY);
	struct question *q = bpf_map_lookup_elem(&QUESTIONS, &sk);
	if (!q)
		return 0;
	__builtin_memcpy(&q->peer, &entry->peer, sizeof(q->peer));
	if (is_unnamed(first, 'P')) {
		u8 next = 0;
		u64 end = 1 + ((u64)first[2] << 16 | (u64)first[3] << 8 | first[4]);
		if (end < bytes)
			bpf_probe_read_user(&next, sizeof(next), (void *)(t->user + end));
		if (next != 'B')
			entry->then = by_chance;
	}
	u64 len = bytes < t->user_len ? bytes : t->user_len;
	if (len > HEAD)
		len = HEAD;
	asm volatile("" : "+r"(len)); // The bound and its use must be of one register for the verifier.
	if (len > HEAD)
		len = HEAD;
	if (bpf_probe_read_user(q->bytes, len, (void *)t->user))
		len = 0;
	q->len = len;
	q->stands_for = by_chance;
	return 1;
}

__noinline int hand_out(u32 tid, u64 bytes, u64 wait_ns)
{
	struct thread *t = bpf_map_lookup_elem(&THREADS, &tid);
	if (!t)
		return 0;
	u64 sk = t->sk;
	struct question *q = bpf_map_lookup_elem(&QUESTIONS, &sk);
	if (!q)
		return 0;
	q->wait_ns = wait_ns;
	q->answer = bytes;
	// Shorter ones are read with what their buffer holds behind them; `answer` tells how much counts.
	if (t->user && t->user_len >= ANSWER_BEGINS)
		bpf_probe_read_user(q->begins, ANSWER_BEGINS, (void *)t->user);
	if (t->user && bytes >= ANSWER_ENDS && t->user_len >= bytes)
		bpf_probe_read_user(q->ends, ANSWER_ENDS, (void *)(t->user + bytes - ANSWER_ENDS));
	bpf_ringbuf_output(&ANSWERED, q, sizeof(*q), 0);
	return 1;
}

static __always_inline void turn(struct thread *t, u32 tid, u8 dir, u64 bytes, u64 now)
{
	struct sock_entry *entry = entry_of(t->sk, t->target);
	if (!entry || !entry->is_upstream)
		return;
	struct peer_stats *stats = FIND(PEERS, &entry->peer, &no_peers);
	if (!stats)
		return;
	if (dir == DIR_WRITE) {
		add(&stats->written_bytes, bytes);
		if (!entry->wrote) {
			u32 by_chance = t->user ? chosen(t->target) : 0, then = entry->then;
			entry->then = 0;
			entry->kept = (by_chance || then) && keep_question(tid, bytes, by_chance, then);
		}
		entry->written_ns = now;
		entry->wrote = 1;
		// On loopback an answer may be there before the write returns; what was there before it began is none.
		if (entry->arrived_ns < t->entered_ns)
			entry->arrived_ns = 0;
		return;
	}
	add(&stats->read_bytes, bytes);
	u64 arrived = entry->arrived_ns;
	entry->arrived_ns = 0;
	if (!entry->wrote)
		return;
	entry->wrote = 0;
	if (t->user && t->user_len >= REFUSAL)
		count_refusal(t->user, bytes, t->target);
	if (arrived) {
		u64 answered = arrived > entry->written_ns ? arrived - entry->written_ns : 0;
		add(&stats->answered_ns, answered);
		add(&stats->answered[log2_of(answered / 1000) & 31], 1);
	}
	u64 wait = now - entry->written_ns;
	if (entry->kept)
		hand_out(tid, bytes, wait);
	entry->kept = 0;
	add(&stats->requests, 1);
	add(&stats->wait_ns, wait);
	add(&stats->waits[log2_of(wait / 1000) & 31], 1);
}

// The record that ends a TLS 1.3 handshake, behind a change_cipher_spec of 6 bytes: 5 of header, 4 of message header, a
// hash of 32 or 48 bytes, 1 of type and 16 of tag (RFC 8446 4.4.4, 5.2). No request fits into it as well.
#define TLS_FINISHED 80
#define TLS_CHANGE_CIPHER_SPEC 20
#define TLS_HANDSHAKE 22

// A client's request has been taken when the first write follows a read on its connection; what a TLS client sends
// before its first request is none.
static __always_inline void client_turn(struct thread *t, u8 dir, u64 bytes)
{
	u64 sk = t->sk;
	struct asking *asking = bpf_map_lookup_elem(&ASKING, &sk);
	if (dir == DIR_WRITE) {
		if (!asking || !asking->asks)
			return;
		asking->asks = 0;
		u8 record = asking->tls ? asking->record : 0;
		int finished = record == TLS_CHANGE_CIPHER_SPEC && asking->bytes <= TLS_FINISHED;
		u32 target = t->target;
		if (record != TLS_HANDSHAKE && !finished)
			count(&TAKEN, &target);
		return;
	}
	if (asking && asking->asks) {
		asking->bytes += bytes;
		return;
	}
	u8 first[2] = {};
	if ((!asking || asking->tls) && t->user)
		bpf_probe_read_user(first, sizeof(first), (void *)t->user);
	if (asking) {
		asking->asks = 1;
		asking->bytes = bytes;
		asking->record = first[0];
		return;
	}
	struct asking fresh = { .bytes = bytes, .asks = 1, .record = first[0] };
	// nginx looks at one byte first.
	fresh.tls = first[0] == TLS_HANDSHAKE && (bytes < sizeof(first) || first[1] == 3);
	bpf_map_update_elem(&ASKING, &sk, &fresh, BPF_ANY);
}

// ---- Files.

static __always_inline struct file_stats *file_stats_of(struct file_key *key)
{
	struct file_stats *stats = bpf_map_lookup_elem(&FILES, key);
	if (stats)
		return stats;
	bpf_map_update_elem(&FILES, key, &no_files, BPF_NOEXIST);
	stats = bpf_map_lookup_elem(&FILES, key);
	if (stats)
		return stats;
	lose();
	return 0;
}

static __always_inline void name_of(struct file *file, char *name)
{
	const unsigned char *from = BPF_CORE_READ(file, f_path.dentry, d_name.name);
	bpf_probe_read_kernel_str(name, NAME, from);
}

static __always_inline void count_file_io(struct thread *t, s32 fd, u8 dir, u8 kind, u64 bytes)
{
	struct file *file = file_of((struct task_struct *)bpf_get_current_task(), fd);
	struct file_key key = {};
	if (!file)
		return;
	key.target = t->target;
	name_of(file, key.name);
	struct file_stats *stats = file_stats_of(&key);
	if (!stats)
		return;
	if (kind == KIND_SYNC) {
		add(&stats->syncs, 1);
	} else if (dir == DIR_READ) {
		add(&stats->reads, 1);
		add(&stats->read_bytes, bytes);
	} else {
		add(&stats->writes, 1);
		add(&stats->written_bytes, bytes);
		stats->flags |= BPF_CORE_READ(file, f_flags);
	}
}

static __always_inline void count_path(struct thread *t, u8 kind, s64 ret)
{
	struct file_key key = {};
	key.target = t->target;
	bpf_probe_read_user_str(key.name, NAME, (void *)t->user);
	if (!key.name[0]) {
		// AT_EMPTY_PATH: the descriptor itself is meant.
		struct file *file = file_of((struct task_struct *)bpf_get_current_task(), t->fd);
		if (!file || t->class != CLASS_FILE)
			return;
		name_of(file, key.name);
	}
	struct file_stats *stats = file_stats_of(&key);
	if (!stats)
		return;
	if (kind == KIND_OPEN && ret >= 0)
		add(&stats->opens, 1);
	if (kind == KIND_STAT)
		add(&stats->stats, 1);
	if (ret == -2)
		add(&stats->missing, 1);
}

// ---- Heads: some first bytes of requests and answers.

static __always_inline int begins_a_head(const u8 *b)
{
	u32 four = (u32)b[0] | (u32)b[1] << 8 | (u32)b[2] << 16 | (u32)b[3] << 24;
	switch (four) {
	case 0x50545448: // HTTP
	case 0x20544547: // GET
	case 0x54534f50: // POST
	case 0x44414548: // HEAD
	case 0x20545550: // PUT
	case 0x454c4544: // DELE
	case 0x4954504f: // OPTI
	case 0x43544150: // PATC
		return 1;
	}
	return 0;
}

// The next small buffer of a head; is there room for one more? A function that the verifier looks at by itself: inside
// the loop it took nine tenths of the time that loading takes.
__noinline int keep_piece(struct head *head, u64 from)
{
	struct vec v;
	if (!head || bpf_probe_read_user(&v, sizeof(v), (void *)from))
		return 0;
	u32 at = head->len;
	u32 n = v.len > PIECE ? PIECE : v.len;
	asm volatile("" : "+r"(n), "+r"(at)); // The bound and its use must be of one register for the verifier.
	if (n > PIECE || at >= HEAD)
		return 0;
	if (bpf_probe_read_user(head->bytes + at, n, (void *)v.base))
		return 0;
	head->len = at + n;
	return v.len <= PIECE;
}

// A head that is put together from small buffers, as caches do it: word after word, line after line.
static __always_inline void more_of_head(struct thread *t, struct head *head)
{
#pragma clang loop unroll(disable)
	for (u32 i = 1; i < PIECES; i++)
		if (i >= t->vecs || !keep_piece(head, t->vec + i * sizeof(struct vec)))
			return;
}

// A function that the verifier looks at by itself: inside its caller it took most of the time that loading takes.
__noinline int keep_head(u32 tid, u32 dir, u64 bytes)
{
	struct thread *t = bpf_map_lookup_elem(&THREADS, &tid);
	if (!t)
		return 0;
	struct head *head = bpf_ringbuf_reserve(&HEADS, sizeof(*head), 0);
	if (!head)
		return 0;
	head->target = t->target;
	head->class = t->class;
	head->dir = dir;
	u64 len = bytes < t->user_len ? bytes : t->user_len;
	if (len > HEAD)
		len = HEAD;
	asm volatile("" : "+r"(len)); // As above.
	if (len > HEAD)
		len = HEAD;
	head->len = len;
	if (bpf_probe_read_user(head->bytes, len, (void *)t->user)) {
		bpf_ringbuf_discard(head, 0);
		return 0;
	}
	if (t->vec && len == t->user_len)
		more_of_head(t, head);
	bpf_ringbuf_submit(head, 0);
	return 1;
}

static __always_inline void sample_head(struct thread *t, u32 tid, u8 dir, u64 bytes)
{
	u8 first[4];
	if (bytes < 16 || !t->user || bpf_probe_read_user(first, sizeof(first), (void *)t->user))
		return;
	if (!begins_a_head(first))
		return;
	struct class_key key = { t->target, (u32)t->class << 8 | dir };
	u64 *seen = bpf_map_lookup_elem(&HEAD_COUNTS, &key);
	if (!seen) {
		bpf_map_update_elem(&HEAD_COUNTS, &key, &no_count, BPF_NOEXIST);
		seen = bpf_map_lookup_elem(&HEAD_COUNTS, &key);
		if (!seen)
			return;
	}
	u64 n = *seen;
	add(seen, 1);
	// The first ones all, so that few requests tell their share of errors too; then some of the later ones.
	if (n < 256 || (n < 64 * 64 && n % 64 == 0))
		keep_head(tid, dir, bytes);
}

// ---- System calls.

SEC("tp_btf/sys_enter")
int enter_call(u64 *ctx)
{
	void *regs = (void *)ctx[0];
	u64 id = bpf_get_current_pid_tgid();
	u32 tgid = id >> 32, tid = id;
	u32 *target = bpf_map_lookup_elem(&TGIDS, &tgid);
	if (!target)
		return 0;
	struct thread *t = thread_of(tid, *target);
	if (!t)
		return 0;
	u32 nr = ctx[1];
	const struct call *call = bpf_map_lookup_elem(&TABLE, &nr);
	if (!call)
		return 0;
	t->target = *target;
	t->seeded = 0;
	t->user = 0;
	t->sk = 0;
	t->fd = -1;
	t->class = CLASS_NONE;
	t->asked_known = 0;
	t->vec = 0;
	if (call->fd) {
		u64 sk;
		t->fd = argument(regs, call->fd - 1);
		t->class = class_of((struct task_struct *)bpf_get_current_task(), t->fd, *target, &sk);
		t->sk = sk;
	}
	if (call->asked)
		ask(t, call, regs);
	if (call->path)
		t->user = argument(regs, call->path - 1);
	if (call->kind == KIND_SENDFILE)
		t->fd_in = argument(regs, 1);
	if (call->kind == KIND_CONNECT) {
		t->user = argument(regs, 1);
		t->user_len = argument(regs, 2);
		if (t->class == CLASS_UPSTREAM || t->class == CLASS_UNIX)
			connecting(t);
	}
	if (call->kind == KIND_CLOSE && t->class == CLASS_UPSTREAM && t->sk) {
		// One that never got a connection has no change of state left that would end its entry.
		u64 sk = t->sk;
		u32 state = BPF_CORE_READ((struct sock *)sk, __sk_common.skc_state);
		if (state == 7 || state == 2)
			bpf_map_delete_elem(&SOCKS, &sk);
	}
	t->nr = nr;
	t->entered_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline void count_size(struct call_stats *stats, struct thread *t, struct count_key *key, u64 bytes)
{
	add(&stats->bytes, bytes);
	if (bytes)
		add(&stats->sizes[log2_of(bytes) & 31], 1);
	else
		add(&stats->zero, 1);
	if (t->asked_known) {
		add(&stats->asked, t->asked);
		if (bytes && bytes == t->asked)
			add(&stats->full, 1);
		else if (bytes && bytes < t->asked)
			add(&stats->partial, 1);
	}
	key->value = bytes;
	count(&SIZES, key);
}

SEC("tp_btf/sys_exit")
int exit_call(u64 *ctx)
{
	s64 ret = ctx[1];
	u32 tid = bpf_get_current_pid_tgid();
	struct thread *t = bpf_map_lookup_elem(&THREADS, &tid);
	if (!t || t->nr == NO_CALL)
		return 0;
	u32 nr = t->nr;
	t->nr = NO_CALL;
	if (t->seeded) {
		t->seeded = 0;
		return 0;
	}
	const struct call *call = bpf_map_lookup_elem(&TABLE, &nr);
	if (!call)
		return 0;
	u64 now = bpf_ktime_get_ns();
	struct call_key key = { t->target, nr, t->class };
	struct call_stats *stats = FIND(CALLS, &key, &no_calls);
	if (!stats)
		return 0;
	add(&stats->calls, 1);
	add(&stats->time_ns, now - t->entered_ns);
	struct count_key counted = { t->target, nr, t->class, 0 };
	int failed = ret < 0 && ret >= -4095;
	u32 error = -ret;
	if (failed) {
		counted.value = error;
		count(&ERRORS, &counted);
	} else if (call->asked) {
		count_size(stats, t, &counted, ret);
	}

	u8 class = t->class;
	if (call->path && (call->kind == KIND_OPEN || call->kind == KIND_STAT))
		count_path(t, call->kind, ret);
	if (failed) {
		if (call->kind == KIND_CONNECT && (class == CLASS_UPSTREAM || class == CLASS_UNIX))
			connected(t, error);
		return 0;
	}
	if (class == CLASS_FILE && (call->dir || call->kind == KIND_SYNC))
		count_file_io(t, t->fd, call->dir, call->kind, ret);
	if (call->kind == KIND_SENDFILE)
		count_file_io(t, t->fd_in, DIR_READ, KIND_PLAIN, ret);
	if (call->dir && ret > 0) {
		if (class == CLASS_CLIENT || class == CLASS_UPSTREAM)
			sample_head(t, tid, call->dir, ret);
		if (t->sk && (class == CLASS_UPSTREAM || class == CLASS_UNIX))
			turn(t, tid, call->dir, ret, now);
		else if (t->sk && class == CLASS_CLIENT)
			client_turn(t, call->dir, ret);
	}
	if (call->kind == KIND_CLOSE && class == CLASS_UNIX) {
		u64 sk = t->sk;
		bpf_map_delete_elem(&SOCKS, &sk);
	}
	return 0;
}

// ---- Off the CPU.

static __always_inline void left(struct task_struct *prev, u32 state, int preempted, u64 now)
{
	u32 tgid = BPF_CORE_READ(prev, tgid);
	u32 *target = bpf_map_lookup_elem(&TGIDS, &tgid);
	if (!target || (!preempted && state & 0xf0)) // TASK_DEAD and EXIT_*
		return;
	struct thread *t = thread_of(BPF_CORE_READ(prev, pid), *target);
	if (!t)
		return;
	t->off_ns = now;
	t->state = preempted || !state ? WAIT_RUNNABLE : state & 2 ? WAIT_DISK : WAIT_SLEEPING;
}

static __always_inline void came(struct task_struct *next, u64 now)
{
	u32 tid = BPF_CORE_READ(next, pid);
	struct thread *t = bpf_map_lookup_elem(&THREADS, &tid);
	if (!t || !t->off_ns)
		return;
	u64 wait = now - t->off_ns;
	t->off_ns = 0;
	if (t->seeded && t->fd >= 0) {
		u64 sk;
		t->class = class_of(next, t->fd, t->target, &sk);
	}
	struct wait_key key = { t->target, t->nr, t->nr == NO_CALL ? CLASS_NONE : t->class, t->state };
	struct wait_stats *stats = FIND(WAITS, &key, &no_waits);
	if (!stats)
		return;
	add(&stats->waits, 1);
	add(&stats->total_ns, wait);
	add(&stats->lengths[log2_of(wait / 1000) & 31], 1);
	if (wait > stats->max_ns)
		stats->max_ns = wait;
}

SEC("tp_btf/sched_switch")
int off_cpu(u64 *ctx)
{
	u64 now = bpf_ktime_get_ns();
	left((struct task_struct *)ctx[1], ctx[3], ctx[0] & 1, now);
	came((struct task_struct *)ctx[2], now);
	return 0;
}

// The tracepoint hands out the state of the one that leaves since 5.18; before, it is read from the task.
SEC("tp_btf/sched_switch")
int off_cpu_old(u64 *ctx)
{
	u64 now = bpf_ktime_get_ns();
	struct task_struct *prev = (struct task_struct *)ctx[1];
	u32 state;
	if (bpf_core_field_exists(((struct task_struct___state *)0)->__state))
		state = BPF_CORE_READ((struct task_struct___state *)prev, __state);
	else
		state = BPF_CORE_READ((struct task_struct___old *)prev, state);
	left(prev, state, ctx[0] & 1, now);
	came((struct task_struct *)ctx[2], now);
	return 0;
}

// ---- Processes.

SEC("tp_btf/sched_process_fork")
int forked(u64 *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx[0];
	struct task_struct *child = (struct task_struct *)ctx[1];
	u32 tgid = BPF_CORE_READ(parent, tgid), child_tgid = BPF_CORE_READ(child, tgid);
	u32 *target = bpf_map_lookup_elem(&TGIDS, &tgid);
	if (!target)
		return 0;
	u32 index = *target;
	struct process_counts *counts = FIND(PROCESSES, &index, &no_processes);
	if (counts)
		add(&counts->forks, 1);
	if (tgid == child_tgid)
		return 0;
	if (bpf_map_update_elem(&TGIDS, &child_tgid, &index, BPF_ANY))
		lose();
	struct text *text = bpf_map_lookup_elem(&TEXTS, &tgid);
	if (text) {
		struct text same = *text;
		if (bpf_map_update_elem(&TEXTS, &child_tgid, &same, BPF_ANY))
			lose();
	}
	return 0;
}

SEC("tp_btf/sched_process_exec")
int executed(u64 *ctx __attribute__((unused)))
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	u32 *target = bpf_map_lookup_elem(&TGIDS, &tgid);
	if (!target)
		return 0;
	u32 index = *target;
	struct process_counts *counts = FIND(PROCESSES, &index, &no_processes);
	if (counts)
		add(&counts->execs, 1);
	// The new program has its libraries elsewhere.
	bpf_map_delete_elem(&TEXTS, &tgid);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int exited(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	u32 tid = BPF_CORE_READ(task, pid), tgid = BPF_CORE_READ(task, tgid);
	if (!bpf_map_lookup_elem(&TGIDS, &tgid))
		return 0;
	bpf_map_delete_elem(&THREADS, &tid);
	return 0;
}

// ---- TCP. These run wherever a segment is handled, so the socket tells whose it is, not the current task.

static __always_inline struct sock_stats *stats_of_sock(struct sock *sk)
{
	u64 address = (u64)sk;
	struct class_key key = {};
	struct sock_entry *entry = bpf_map_lookup_elem(&SOCKS, &address);
	if (entry) {
		key.target = entry->peer.target;
		key.class = CLASS_UPSTREAM;
	} else {
		u32 port = BPF_CORE_READ(sk, __sk_common.skc_num);
		// A socket that is closed gives its number back before its reset is sent; the port for the header stays.
		if (!port)
			port = __builtin_bswap16(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
		u32 *target = bpf_map_lookup_elem(&PORTS, &port);
		if (!target)
			return 0;
		key.target = *target;
		key.class = CLASS_CLIENT;
	}
	return FIND(SOCK_STATS, &key, &no_socks);
}

SEC("tp_btf/inet_sock_set_state")
int tcp_state(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	u64 address = (u64)sk;
	int old = ctx[1], new = ctx[2];
	// What was noted at this address was another socket, when this one was accepted, or when somebody else
	// connects it.
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	if ((new == 1 && old == 3) || (new == 2 && !bpf_map_lookup_elem(&TGIDS, &tgid)))
		bpf_map_delete_elem(&SOCKS, &address);
	if (new == 1 && old == 3)
		bpf_map_delete_elem(&ASKING, &address);
	if (new == 1 || new == 4 || new == 8) {
		struct sock_stats *stats = stats_of_sock(sk);
		if (!stats)
			return 0;
		if (new == 1)
			add(&stats->established, 1);
		else if (new == 4 && old != 8)
			add(&stats->closed_by_us, 1);
		else if (new == 8)
			add(&stats->closed_by_peer, 1);
		return 0;
	}
	if (new != 7)
		return 0;
	struct sock_entry *entry = bpf_map_lookup_elem(&SOCKS, &address);
	if (!entry)
		return 0;
	u32 error = BPF_CORE_READ(sk, sk_err);
	if (old != 2) {
		// Closed from an open state with no error: this side resets it, in a segment that leaves after this.
		struct sock_stats *stats = (old == 1 || old == 8) && !error ? stats_of_sock(sk) : 0;
		if (stats) {
			add(&stats->resets_sent, 1);
			if (!BPF_CORE_READ((struct tcp_sock *)sk, bytes_sent))
				add(&stats->resets_unused, 1);
		}
		bpf_map_delete_elem(&SOCKS, &address);
		return 0;
	}
	if (error && !entry->failed) {
		entry->failed = 1;
		struct peer peer;
		__builtin_memcpy(&peer, &entry->peer, sizeof(peer));
		count_peer_error(&peer, error);
	}
	return 0;
}

SEC("tp_btf/tcp_send_reset")
int reset_sent(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct sock_stats *stats = sk ? stats_of_sock(sk) : 0;
	if (stats)
		add(&stats->resets_sent, 1);
	return 0;
}

SEC("tp_btf/tcp_receive_reset")
int reset_received(u64 *ctx)
{
	struct sock_stats *stats = stats_of_sock((struct sock *)ctx[0]);
	if (stats)
		add(&stats->resets_received, 1);
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int retransmitted(u64 *ctx)
{
	struct sock_stats *stats = stats_of_sock((struct sock *)ctx[0]);
	if (stats)
		add(&stats->retransmits, 1);
	return 0;
}

// When data comes in for an upstream socket, whoever the current task may be: the end of the upstream's
// part in a wait, and the beginning of the target's own delay until it reads.

static __always_inline void arrived(u64 sk)
{
	struct sock_entry *entry = bpf_map_lookup_elem(&SOCKS, &sk);
	if (entry && entry->is_upstream && !entry->arrived_ns)
		entry->arrived_ns = bpf_ktime_get_ns();
}

SEC("tp_btf/sk_data_ready")
int data_ready(u64 *ctx)
{
	arrived(ctx[0]);
	return 0;
}

// Before 6.3: every segment of an established connection, also one without data.
SEC("tp_btf/tcp_probe")
int data_ready_old(u64 *ctx)
{
	struct sk_buff *skb = (struct sk_buff *)ctx[1];
	unsigned char *header = BPF_CORE_READ(skb, data);
	u8 offset = 0;
	bpf_probe_read_kernel(&offset, sizeof(offset), header + 12);
	if (BPF_CORE_READ(skb, len) > (u32)(offset >> 4) * 4)
		arrived(ctx[0]);
	return 0;
}

// ---- The allocator, where it is entered from outside of its library.

SEC("uprobe")
int allocated(void *regs)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	u32 *target = bpf_map_lookup_elem(&TGIDS, &tgid);
	if (!target)
		return 0;
	struct text *text = bpf_map_lookup_elem(&TEXTS, &tgid);
	if (!text)
		return 0;
	u64 caller = 0;
	if (bpf_core_field_exists(((struct pt_regs___x86 *)0)->di)) {
		u64 sp = BPF_CORE_READ((struct pt_regs___x86 *)regs, sp);
		bpf_probe_read_user(&caller, sizeof(caller), (void *)sp);
	} else {
		caller = BPF_CORE_READ((struct pt_regs___arm *)regs, regs[30]);
	}
	if (caller >= text->from && caller < text->to)
		return 0;
	struct alloc_key key = { *target, bpf_get_attach_cookie(regs) };
	count(&ALLOCS, &key);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
