// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// The kernel's side of the turn trace: it writes down what happens to the targets' sockets and threads, one event
// after another, and understands nothing of it. What the events mean is worked out when the trace is over.
//
// The surprise: no system call is traced, because that would slow every call of every process. What a thread waits
// in is read from its saved registers at the moment it leaves the CPU. Each program asks first whose socket or
// thread it is; what is nobody's, or not followed, costs a few loads from arrays and no call of a helper.
//
// **Some of many requests.** With a mask, the connections of clients are chosen by a hash. What a thread then asks for
// one of them is followed at whom it asks, too, request by request: on this host the segment arrives there while
// the thread that asks is the current one. So a chain of servers is followed from end to end and not by chance.

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#define NAME 16
#define PATH 108

// ---- The kernel's structures, only what is read of them.

#define CORE __attribute__((preserve_access_index))

struct super_block { unsigned long s_magic; } CORE;
struct inode { u16 i_mode; struct super_block *i_sb; } CORE;
struct file { void *private_data; struct inode *f_inode; } CORE;
struct fdtable { unsigned int max_fds; struct file **fd; } CORE;
struct files_struct { struct fdtable *fdt; } CORE;
struct task_struct {
	int pid;
	int tgid;
	unsigned int flags;
	struct files_struct *files;
	char comm[NAME];
} CORE;
struct in6_addr { u8 bytes[16]; };
struct sock_common {
	u16 skc_family;
	volatile unsigned char skc_state;
	u16 skc_dport;
	u16 skc_num;
	u32 skc_daddr;
	struct in6_addr skc_v6_daddr;
} CORE;
struct socket;
struct sock {
	struct sock_common __sk_common;
	u16 sk_type;
	struct socket *sk_socket;
} CORE;
struct socket { struct sock *sk; } CORE;
struct sockaddr_un { u16 sun_family; char sun_path[PATH]; };
struct unix_address { int len; struct sockaddr_un name[0]; } CORE;
struct unix_sock { struct unix_address *addr; struct sock *peer; } CORE;
struct pt_regs___x86 { unsigned long di, si, orig_ax; } CORE;
struct pt_regs___arm { u64 regs[31]; s32 syscallno; } CORE;

// ---- What is shared with user space; turns/wire.rs declares the same.

enum kind { ARRIVED, RECEIVED, SENT, CONNECTING, ESTABLISHED, CLOSED, SWITCHED, WAKING, NAMED, FORKED, ENDED };

enum class {
	CLASS_NONE, CLASS_CLIENT, CLASS_UPSTREAM, CLASS_UNIX_CLIENT, CLASS_UNIX_UPSTREAM, CLASS_UDP,
	CLASS_FILE, CLASS_PIPE, CLASS_POLL, CLASS_OTHER,
};

// Flags of an event.
#define UNACCEPTED 1 // the connection was not accepted yet when this arrived
#define PREEMPTED 2  // the thread that left was still ready
#define LEFT 4       // the thread that left is a target's
#define CAME 8       // the thread that came is a target's
#define IDLE 16      // a thread that waits in a poll of no descriptor
#define KERNEL 32    // the other one is a kernel thread
#define UNFOLLOWED 64 // the thread turned to, or the connection goes on with, what is not followed

struct event {
	u64 at_ns;
	u64 sk;
	u32 tid;        // who received or sent; who left the CPU; who is woken
	u32 tgid;
	u32 other_tid;  // who came onto the CPU; who wakes
	u32 other_tgid;
	s32 nr;         // system call of the one who left, or of the one who wakes; -1 for none
	u32 value;      // bytes; state of the one who left
	u8 kind;
	u8 class;
	u8 flags;
	u8 family;
	u16 port;       // the target's own; number of the CPU of a switch
	u16 peer_port;
	char name[NAME]; // of the other thread; the peer's address
};
struct named { struct event event; char path[PATH]; u32 unused; };

#define MAP(name, maptype, entries, k, v, flags) \
	struct { \
		__uint(type, maptype); \
		__uint(max_entries, entries); \
		__uint(map_flags, flags); \
		__type(key, k); \
		__type(value, v); \
	} name SEC(".maps")

// Processes of the targets: the index of its target, and whether its threads carry many tasks.
MAP(TGIDS, BPF_MAP_TYPE_HASH, 65536, u32, u32, BPF_F_NO_PREALLOC);
#define MANY_TASKS (1u << 31)
// A bit for each number that a process or thread may have, 64 a word: the targets' processes, and threads that are
// with a connection that is not followed.
#define WORDS (1 << 16)
MAP(OURS, BPF_MAP_TYPE_ARRAY, WORDS, u32, u64, 0);
MAP(AWAY, BPF_MAP_TYPE_ARRAY, WORDS, u32, u64, 0);
// What is known of each port.
MAP(PORTS, BPF_MAP_TYPE_ARRAY, 65536, u32, u32, 0);
#define LISTENS 1   // a target does
#define ASKS 2      // a target asks an upstream from there
#define CHOSEN 4    // and which of its questions are followed is decided one by one
#define FOLLOWED 8  // the last one is
#define ASKED 16    // it has no answer yet
#define OPEN 32     // a question that is followed has arrived at who was asked, and none that is not
// What a system call waits for: 0 nothing known, 1 + index of the argument that is a descriptor, or one of the below.
MAP(CALLS, BPF_MAP_TYPE_ARRAY, 1024, u32, u8, 0);
#define CALL_POLL 10
#define CALL_SELECT 11
// Sockets that a target's thread has used and no port tells: upstreams. The value is their class, and from bit 16 on
// their own port, which a socket that is closed has no more.
MAP(SOCKS, BPF_MAP_TYPE_LRU_HASH, 65536, u64, u32, 0);
#define CLASS 0xff
#define UNSAID 0x100     // nobody was told of it
#define ONE_BY_ONE 0x200 // which of its questions are followed is decided by who asks
MAP(LOST, BPF_MAP_TYPE_PERCPU_ARRAY, 1, u32, u64, 0);
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 25);
} EVENTS SEC(".maps");

// One connection in mask + 1 is followed, by a hash of the client's port.
const volatile u32 MASK = 0;

// ---- Small tools.

static __always_inline void lose(void)
{
	u32 zero = 0;
	u64 *lost = bpf_map_lookup_elem(&LOST, &zero);
	if (lost)
		__sync_fetch_and_add(lost, 1);
}

// An event with everything zero; the reader looks by the clock, so nobody is woken.
static __always_inline struct event *begin(u8 kind)
{
	struct event *e = bpf_ringbuf_reserve(&EVENTS, sizeof(*e), 0);
	if (!e) {
		lose();
		return 0;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->at_ns = bpf_ktime_get_ns();
	e->kind = kind;
	e->nr = -1;
	return e;
}

static __always_inline void end(struct event *e)
{
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

static __always_inline u64 *word_of(void *bits, u32 number)
{
	u32 word = number / 64 % WORDS;
	return bpf_map_lookup_elem(bits, &word);
}

static __always_inline int has(void *bits, u32 number)
{
	u64 *word = word_of(bits, number);
	return word && *word >> number % 64 & 1;
}

static __always_inline void put(void *bits, u32 number)
{
	u64 *word = word_of(bits, number);
	if (word)
		__sync_fetch_and_or(word, 1ull << number % 64);
}

static __always_inline void take(void *bits, u32 number)
{
	u64 *word = word_of(bits, number);
	if (word && *word >> number % 64 & 1)
		__sync_fetch_and_and(word, ~(1ull << number % 64));
}

static __always_inline int is_ours(u32 tgid)
{
	return has(&OURS, tgid);
}

static __always_inline u32 *port_at(u32 port)
{
	return bpf_map_lookup_elem(&PORTS, &port);
}

static __always_inline u32 known_of(u32 port)
{
	u32 *at = port_at(port);
	return at ? *(volatile u32 *)at : 0;
}

// Atomic: both ends of a connection have bits in the same word.
static __always_inline void know(u32 port, u32 bits)
{
	u32 *at = port_at(port);
	if (at)
		__sync_fetch_and_or(at, bits);
}

static __always_inline void forget(u32 port, u32 bits)
{
	u32 *at = port_at(port);
	if (at)
		__sync_fetch_and_and(at, ~bits);
}

static __always_inline int is_drawn(u16 peer_port)
{
	return !(((u32)peer_port * 2654435761u >> 16) & MASK);
}

// ---- Sockets.

// Class of a socket by itself alone; a TCP socket is a client's by the port that the target listens on.
static __always_inline u8 class_of_sock(struct sock *sk)
{
	u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (family == 1)
		return BPF_CORE_READ((struct unix_sock *)sk, addr) ? CLASS_UNIX_CLIENT : CLASS_UNIX_UPSTREAM;
	if (family != 2 && family != 10)
		return CLASS_OTHER;
	if (BPF_CORE_READ(sk, sk_type) != 1)
		return CLASS_UDP;
	u32 port = BPF_CORE_READ(sk, __sk_common.skc_num);
	// The other end has reset the connection, on a loopback device while this one sent.
	if (!port)
		return CLASS_OTHER;
	return known_of(port) & LISTENS ? CLASS_CLIENT : CLASS_UPSTREAM;
}

static __always_inline u16 peer_of(struct sock *sk)
{
	return __builtin_bswap16(sk->__sk_common.skc_dport);
}

static __always_inline void address(struct event *e, struct sock *sk)
{
	e->family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (e->family == 2) {
		u32 v4 = BPF_CORE_READ(sk, __sk_common.skc_daddr);
		__builtin_memcpy(e->name, &v4, 4);
	} else if (e->family == 10) {
		bpf_core_read(e->name, NAME, &sk->__sk_common.skc_v6_daddr);
	}
	if (e->family != 1) {
		e->port = BPF_CORE_READ(sk, __sk_common.skc_num);
		e->peer_port = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
	}
}

// Who asks is not told by the thread where that carries many tasks.
static __always_inline u32 one_by_one(u32 tgid)
{
	u32 *target = MASK ? bpf_map_lookup_elem(&TGIDS, &tgid) : 0;
	return target && !(*target & MANY_TASKS) ? ONE_BY_ONE : 0;
}

// A target asks from a port; `bits` are FOLLOWED, ASKED, OPEN where its questions are chosen one by one.
static __always_inline void asks_from(u32 port, u32 value, u32 bits)
{
	know(port, ASKS | (value & ONE_BY_ONE ? CHOSEN | bits : 0));
}

// Says once who is at the other end of a socket.
static __always_inline void introduce(struct sock *sk, u64 key, u8 class, u64 id)
{
	u32 port = class == CLASS_UPSTREAM ? sk->__sk_common.skc_num : 0;
	u32 value = class | port << 16 | (class == CLASS_UPSTREAM ? one_by_one(id >> 32) : 0);
	bpf_map_update_elem(&SOCKS, &key, &value, BPF_ANY);
	// A question that has arrived before anybody knew of the connection was drawn, or not.
	if (port)
		asks_from(port, value, FOLLOWED | ASKED | (!(known_of(port) & CHOSEN) && is_drawn(port) ? OPEN : 0));
	struct named *n = bpf_ringbuf_reserve(&EVENTS, sizeof(*n), 0);
	if (!n) {
		lose();
		return;
	}
	__builtin_memset(n, 0, sizeof(*n));
	n->event.at_ns = bpf_ktime_get_ns();
	n->event.kind = NAMED;
	n->event.nr = -1;
	n->event.sk = key;
	n->event.class = class;
	n->event.tid = id;
	n->event.tgid = id >> 32;
	address(&n->event, sk);
	if (class == CLASS_UNIX_UPSTREAM || class == CLASS_UNIX_CLIENT) {
		struct unix_sock *one = (struct unix_sock *)sk;
		if (class == CLASS_UNIX_UPSTREAM)
			one = (struct unix_sock *)BPF_CORE_READ(one, peer);
		struct unix_address *at = one ? BPF_CORE_READ(one, addr) : 0;
		if (at)
			bpf_probe_read_kernel_str(n->path, PATH, (void *)&at->name + sizeof(u16));
	}
	bpf_ringbuf_submit(n, BPF_RB_NO_WAKEUP);
}

// Says once that a thread turned to connections that are not followed.
static __always_inline void turned_away(u64 id)
{
	u32 tid = id;
	if (has(&AWAY, tid))
		return;
	put(&AWAY, tid);
	struct event *e = begin(RECEIVED);
	if (!e)
		return;
	e->tid = tid;
	e->tgid = id >> 32;
	e->class = CLASS_CLIENT;
	e->flags = UNFOLLOWED;
	end(e);
}

static __always_inline void turned_back(u32 tid)
{
	if (MASK)
		take(&AWAY, tid);
}

// Is a client's connection not followed? Only with a mask.
static __always_inline int is_left_out(u32 peer_port)
{
	u32 asker = known_of(peer_port);
	return asker & CHOSEN ? !(asker & OPEN) : !is_drawn(peer_port);
}

// Is this question or answer of an upstream for a request that is not followed? More of the same question is as its
// beginning was, but for what a request that is followed asks meanwhile on a connection that many share.
static __always_inline int is_asked_for_others(u32 port, u8 kind, u64 id)
{
	u32 known = known_of(port);
	if (!(known & CHOSEN))
		return 0;
	if (kind == RECEIVED) {
		forget(port, ASKED);
	} else if (!has(&AWAY, id)) {
		know(port, FOLLOWED | ASKED);
		return 0;
	} else if (!(known & ASKED)) {
		forget(port, FOLLOWED);
		know(port, ASKED);
		return 1;
	}
	return !(known & FOLLOWED);
}

// Fields are loaded, not copied by a helper: with few followed connections this is what nearly every call of a full
// server takes.
static __always_inline int passed_over(struct sock *sk, u8 kind, u64 id)
{
	u16 family = sk->__sk_common.skc_family;
	if (!MASK || (family != 2 && family != 10) || sk->sk_type != 1)
		return 0;
	u32 port = sk->__sk_common.skc_num;
	if (known_of(port) & LISTENS)
		return is_left_out(peer_of(sk));
	return is_asked_for_others(port, kind, id);
}

// A target's thread has taken from or put into a socket.
static __always_inline int moved(u64 *ctx, u8 kind)
{
	s32 bytes = ctx[1];
	u32 flags = ctx[2];
	if (bytes <= 0 || (kind == RECEIVED && flags & 2)) // MSG_PEEK
		return 0;
	u64 id = bpf_get_current_pid_tgid();
	if (!is_ours(id >> 32))
		return 0;
	struct sock *sk = (struct sock *)ctx[0];
	u64 key = (u64)sk;
	if (passed_over(sk, kind, id)) {
		turned_away(id);
		return 0;
	}
	u32 *known = bpf_map_lookup_elem(&SOCKS, &key);
	u8 class = known ? *known & CLASS : class_of_sock(sk);
	u16 port = 0, peer_port = 0;
	// Nothing tells of the end of a Unix socket, and the next one at its address may be the other end.
	if (class == CLASS_UNIX_CLIENT || class == CLASS_UNIX_UPSTREAM || class == CLASS_OTHER) {
		class = class_of_sock(sk);
		if (known && (*known & CLASS) != class)
			known = 0;
	}
	if (class == CLASS_OTHER)
		return 0;
	if (class == CLASS_CLIENT) {
		port = sk->__sk_common.skc_num;
		peer_port = peer_of(sk);
	} else if (!known || *known & UNSAID) {
		introduce(sk, key, class, id);
	}
	// A question says nothing of whose request its thread is at.
	if (class == CLASS_CLIENT || class == CLASS_UNIX_CLIENT || kind == RECEIVED)
		turned_back(id);
	struct event *e = begin(kind);
	if (!e)
		return 0;
	e->sk = key;
	e->tid = id;
	e->tgid = id >> 32;
	e->value = bytes;
	e->class = class;
	e->port = port;
	e->peer_port = peer_port;
	end(e);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int received(u64 *ctx)
{
	return moved(ctx, RECEIVED);
}

SEC("tp_btf/sock_send_length")
int sent(u64 *ctx)
{
	return moved(ctx, SENT);
}

// Is what comes from a port that a target asks from for a request that is followed? The thread that asks is the
// current one where the kernel brings it over at once.
static __always_inline int is_for_followed(u32 asker)
{
	u64 id = bpf_get_current_pid_tgid();
	if (!is_ours(id >> 32) || (asker & ASKED && has(&AWAY, id)))
		return asker & FOLLOWED;
	return !has(&AWAY, id);
}

// Data came in, whoever the current task may be.
SEC("tp_btf/sk_data_ready")
int arrived(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	u64 key = (u64)sk;
	u16 family = sk->__sk_common.skc_family;
	u16 peer_port = 0, own_port = 0;
	u8 class = CLASS_CLIENT, flags = 0;
	if (family == 2 || family == 10) {
		u32 port = sk->__sk_common.skc_num, at = known_of(port);
		if (sk->__sk_common.skc_state == 10 || (!(at & (LISTENS | ASKS)) && sk->sk_type == 1))
			return 0;
		if (at & LISTENS) {
			own_port = port;
			peer_port = peer_of(sk);
			u32 asker = MASK ? known_of(peer_port) : 0;
			if (!(asker & CHOSEN)) {
				if (!is_drawn(peer_port))
					return 0;
			} else if (is_for_followed(asker)) {
				know(peer_port, OPEN);
			} else if (asker & OPEN) {
				// Said once: the turn that is followed is over.
				forget(peer_port, OPEN);
				flags = UNFOLLOWED;
			} else {
				return 0;
			}
			goto tell;
		}
		if (MASK && at & CHOSEN && !(at & FOLLOWED) && sk->sk_type == 1)
			return 0;
	} else if (family != 1) {
		return 0;
	}
	u32 *known = bpf_map_lookup_elem(&SOCKS, &key);
	// As above: what was known of a Unix socket may be of the one before.
	if (family == 1 && BPF_CORE_READ((struct unix_sock *)sk, addr))
		class = CLASS_UNIX_CLIENT;
	else if (known && (family != 1 || (*known & CLASS) == CLASS_UNIX_UPSTREAM))
		class = *known & CLASS;
	else
		return 0;
tell:;
	struct event *e = begin(ARRIVED);
	if (!e)
		return 0;
	e->sk = key;
	e->class = class;
	e->port = own_port;
	e->peer_port = peer_port;
	e->flags = flags | (class == CLASS_CLIENT && !BPF_CORE_READ(sk, sk_socket) ? UNACCEPTED : 0);
	end(e);
	return 0;
}

// A connect of a request that is not followed: whoever asks on that connection later may say who is there.
static __always_inline int connects_for_others(u64 key, u64 id)
{
	u32 value = CLASS_UPSTREAM | UNSAID | ONE_BY_ONE;
	if (!MASK || !has(&AWAY, id) || !one_by_one(id >> 32))
		return 0;
	bpf_map_update_elem(&SOCKS, &key, &value, BPF_ANY);
	return 1;
}

SEC("tp_btf/inet_sock_set_state")
int state_changed(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	s32 old = ctx[1], new = ctx[2];
	u64 key = (u64)sk, id = 0;
	u8 kind, class = CLASS_CLIENT;
	u32 port = sk->__sk_common.skc_num;
	if (new == 2) {
		// A connect begins: whatever lay at this address before is another connection.
		id = bpf_get_current_pid_tgid();
		bpf_map_delete_elem(&SOCKS, &key);
		if (!is_ours(id >> 32) || connects_for_others(key, id))
			return 0;
		class = CLASS_UPSTREAM;
		introduce(sk, key, class, id);
		kind = CONNECTING;
	} else if (new == 1 || new == 7) {
		u32 *known = bpf_map_lookup_elem(&SOCKS, &key);
		kind = new == 1 ? ESTABLISHED : CLOSED;
		if (known) {
			u32 value = *known;
			class = value & CLASS;
			if (new == 7) {
				bpf_map_delete_elem(&SOCKS, &key);
				if (value >> 16)
					forget(value >> 16, ASKS | CHOSEN | FOLLOWED | ASKED | OPEN);
			} else if (class == CLASS_UPSTREAM && port) {
				// While it connects it has no port that is known here.
				value = (value & 0xffff) | port << 16;
				bpf_map_update_elem(&SOCKS, &key, &value, BPF_ANY);
				forget(port, FOLLOWED | ASKED | OPEN);
				asks_from(port, value, ASKED | (value & UNSAID ? 0 : FOLLOWED));
			}
			if (value & UNSAID)
				return 0;
		} else if (old == 10 || !(known_of(port) & LISTENS) ||
			   (MASK && is_left_out(peer_of(sk)) && !(known_of(peer_of(sk)) & FOLLOWED))) {
			return 0;
		}
	} else if (new == 4 || new == 9) {
		// A program ends a connection (FIN_WAIT1, LAST_ACK): closed at last, it has no port that tells whose it was.
		if (!(known_of(port) & LISTENS) || (MASK && is_left_out(peer_of(sk))))
			return 0;
		kind = CLOSED;
	} else {
		return 0;
	}
	struct event *e = begin(kind);
	if (!e)
		return 0;
	e->sk = key;
	e->class = class;
	e->tid = id;
	e->tgid = id >> 32;
	e->port = port;
	e->peer_port = peer_of(sk);
	end(e);
	return 0;
}

// ---- Threads.

struct waited { s32 nr; u8 class; u8 idle; u64 sk; };

static __always_inline void class_of_fd(struct task_struct *task, s32 fd, struct waited *w)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file *file = 0;
	if (fd < 0 || !table || (u32)fd >= BPF_CORE_READ(table, max_fds))
		return;
	struct file **slots = BPF_CORE_READ(table, fd);
	bpf_probe_read_kernel(&file, sizeof(file), slots + fd);
	if (!file)
		return;
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	u16 mode = BPF_CORE_READ(inode, i_mode) & 0170000;
	if (mode == 0140000) {
		struct socket *socket = BPF_CORE_READ(file, private_data);
		struct sock *sk = BPF_CORE_READ(socket, sk);
		if (!sk)
			return;
		w->sk = (u64)sk;
		w->class = class_of_sock(sk);
	} else if (BPF_CORE_READ(inode, i_sb, s_magic) == 0x09041934) {
		w->class = CLASS_POLL;
	} else {
		w->class = mode == 0100000 ? CLASS_FILE : mode == 0010000 ? CLASS_PIPE : CLASS_OTHER;
	}
}

// A poll of a few descriptors, as libraries of clients make it (curl): the upstream among them, and a pipe of their own.
// Where clients are among them, too, it is a loop's.
#define MOST_POLLED 4
static __always_inline void class_of_poll(struct task_struct *task, u64 fds, u64 count, struct waited *w)
{
	struct waited asked = {};
	if (count > MOST_POLLED)
		return;
	for (u32 i = 0; i < MOST_POLLED && i < count; i++) {
		struct waited one = {};
		s32 fd = -1;
		if (bpf_probe_read_user(&fd, sizeof(fd), (void *)(fds + i * 8)))
			return;
		class_of_fd(task, fd, &one);
		if (one.class == CLASS_CLIENT && count > 1)
			return;
		if (one.class == CLASS_UPSTREAM || count == 1) {
			asked.class = one.class;
			asked.sk = one.sk;
		}
	}
	w->class = asked.class;
	w->sk = asked.sk;
}

// What a thread that leaves the CPU waits in. It is still the current one, so its memory can be read.
static __always_inline void look(struct task_struct *task, struct waited *w)
{
	void *regs = (void *)bpf_task_pt_regs(task);
	u64 first, second;
	if (bpf_core_field_exists(((struct pt_regs___x86 *)0)->orig_ax)) {
		struct pt_regs___x86 *r = regs;
		w->nr = (s32)BPF_CORE_READ(r, orig_ax);
		first = BPF_CORE_READ(r, di);
		second = BPF_CORE_READ(r, si);
	} else {
		struct pt_regs___arm *r = regs;
		w->nr = BPF_CORE_READ(r, syscallno);
		first = BPF_CORE_READ(r, regs[0]);
		second = BPF_CORE_READ(r, regs[1]);
	}
	u32 nr = w->nr;
	u8 *call = w->nr < 0 ? 0 : bpf_map_lookup_elem(&CALLS, &nr);
	if (!call || !*call)
		return;
	if (*call < CALL_POLL) {
		class_of_fd(task, *call == 1 ? first : second, w);
	} else if (*call == CALL_SELECT) {
		w->idle = !first;
	} else {
		w->idle = !second;
		class_of_poll(task, first, second, w);
	}
}

SEC("tp_btf/sched_switch")
int switched(u64 *ctx)
{
	int preempted = ctx[0] & 1;
	struct task_struct *prev = (struct task_struct *)ctx[1];
	struct task_struct *next = (struct task_struct *)ctx[2];
	u32 state = ctx[3];
	u32 left = 0, came = 0;
	if (is_ours(prev->tgid))
		left = LEFT;
	// The verifier lets nobody combine two pointers that may be none, which the compiler would.
	asm volatile("" : "+r"(left));
	if (is_ours(next->tgid))
		came = CAME;
	asm volatile("" : "+r"(came));
	if (!left && !came)
		return 0;
	struct waited w = { .nr = -1 };
	if (left && !preempted && state && !(state & 0xf0)) {
		look(prev, &w);
		// Whoever waits for an upstream is at the same request still.
		if (w.class != CLASS_UPSTREAM && w.class != CLASS_UNIX_UPSTREAM)
			turned_back(prev->pid);
	}
	struct event *e = begin(SWITCHED);
	if (!e)
		return 0;
	e->tid = prev->pid;
	e->tgid = prev->tgid;
	e->other_tid = next->pid;
	e->other_tgid = next->tgid;
	e->value = state;
	e->nr = w.nr;
	e->class = w.class;
	e->sk = w.sk;
	e->port = bpf_get_smp_processor_id();
	e->flags = left | came | (preempted ? PREEMPTED : 0) | (w.idle ? IDLE : 0);
	// Whoever is not asked for: it ran instead.
	bpf_core_read(e->name, NAME, left ? &next->comm : &prev->comm);
	end(e);
	return 0;
}

SEC("tp_btf/sched_waking")
int waking(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	u32 tgid = task->tgid;
	if (!is_ours(tgid))
		return 0;
	struct event *e = begin(WAKING);
	if (!e)
		return 0;
	struct task_struct *waker = (struct task_struct *)bpf_get_current_task_btf();
	e->tid = task->pid;
	e->tgid = tgid;
	e->other_tid = waker->pid;
	e->other_tgid = waker->tgid;
	if (waker->flags & 0x00200000) { // PF_KTHREAD
		e->flags = KERNEL;
	} else {
		void *regs = (void *)bpf_task_pt_regs(waker);
		if (bpf_core_field_exists(((struct pt_regs___x86 *)0)->orig_ax))
			e->nr = (s32)BPF_CORE_READ((struct pt_regs___x86 *)regs, orig_ax);
		else
			e->nr = BPF_CORE_READ((struct pt_regs___arm *)regs, syscallno);
	}
	bpf_get_current_comm(e->name, NAME);
	end(e);
	return 0;
}

// ---- Processes.

SEC("tp_btf/sched_process_fork")
int forked(u64 *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx[0];
	struct task_struct *child = (struct task_struct *)ctx[1];
	u32 tgid = parent->tgid, child_tgid = child->tgid;
	if (!is_ours(tgid))
		return 0;
	u32 *target = bpf_map_lookup_elem(&TGIDS, &tgid);
	u32 index = target ? *target : 0;
	if (tgid != child_tgid) {
		if (!target || bpf_map_update_elem(&TGIDS, &child_tgid, &index, BPF_ANY))
			lose();
		put(&OURS, child_tgid);
	}
	struct event *e = begin(FORKED);
	if (!e)
		return 0;
	e->tid = child->pid;
	e->tgid = child_tgid;
	e->other_tid = parent->pid;
	e->other_tgid = tgid;
	bpf_core_read(e->name, NAME, &child->comm);
	end(e);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int ended(u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	u32 tgid = task->tgid;
	if (!is_ours(tgid))
		return 0;
	turned_back(task->pid);
	struct event *e = begin(ENDED);
	if (!e)
		return 0;
	e->tid = task->pid;
	e->tgid = tgid;
	end(e);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
