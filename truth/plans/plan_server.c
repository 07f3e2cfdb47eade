// A server with an event loop that executes a plan, and accounts for itself how long each step of each request took.
//
// Started as: plan_server PLAN, with the plan in the lines that write_lines() in plans.py makes. Every request is a row
// of unsigned 32-bit numbers in a shared file (see `struct file` and account.py): the program knows its times by the
// monotonic clock and the thread's CPU clock, and when a request arrived by the kernel's stamp on its segment.
// Every step that waits blocks the loop: that is what the plan asks for.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_STEPS = 16, MOST_FDS = 4096, MOST_PEERS = 8, MOST_TURNS = 16, MOST_LOCKS = 4, STALLS = 1024, FIXED = 6 };
#define UNKNOWN UINT32_MAX

enum kind { BURN, SLEEP, LOCK, UPSTREAM, FILE_READ, LOG, ALLOCATE, PIECES };
typedef void (*work_function)(uint64_t rounds);
struct work { work_function function; double rounds_per_us; uint64_t us; };  // function NULL: a sleep
struct step {
    enum kind kind;
    int column, index, turns, at_once, file, synced;
    size_t bytes, pieces;
    uint64_t gap_us;
    struct work work;
};
struct file {
    uint64_t next, stalls;                       // how many were ever written
    uint64_t stall[STALLS][3];                   // from, to: ns of the monotonic clock; CPU time
    uint32_t rows[];                             // done (2), queue, serve, serve's CPU, 0, then by column wall, CPU, late
};

static struct step steps[MOST_STEPS];
static int step_count, column_count, row_width, port;
static size_t response_bytes = 1024;
static char head[128];
static int head_length;
static struct file *records;
static uint64_t capacity;
static int peers[MOST_PEERS][MOST_TURNS];
static pthread_mutex_t locks[MOST_LOCKS] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                            PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static volatile uint64_t released_at[MOST_LOCKS];
static int log_file = -1;
static char body[1 << 20], scratch[1 << 20], text_block[1024];
static uint64_t sink;
static uint64_t stall_every_ns, stall_at;
static struct work stall_work;

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
static uint64_t wall(void) { return clock_ns(CLOCK_MONOTONIC); }
static uint64_t cpu(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

static void fail(const char *what) {
    perror(what);
    exit(1);
}

// ---- work that a profile can tell apart by its function ----

#define NAMED __attribute__((noinline, noclone)) static void

NAMED sort_records(uint64_t rounds) {
    uint32_t seed = 7;
    for (uint64_t round = 0; round < rounds; round++) {
        uint32_t record[64];
        for (int i = 0; i < 64; i++) record[i] = seed = seed * 1664525 + 1013904223;
        for (int i = 1; i < 64; i++) {
            uint32_t one = record[i];
            int j = i;
            for (; j > 0 && record[j - 1] > one; j--) record[j] = record[j - 1];
            record[j] = one;
        }
        sink += record[31];
    }
}
NAMED hash_blocks(uint64_t rounds) {
    uint64_t hash = 14695981039346656037u;
    for (uint64_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < sizeof text_block; i++) hash = (hash ^ (unsigned char)text_block[i]) * 1099511628211u;
    sink += hash;
}
NAMED scan_text(uint64_t rounds) {
    for (uint64_t round = 0; round < rounds; round++) {
        int words = 0, inside = 0;
        for (size_t i = 0; i < sizeof text_block; i++) {
            int letter = text_block[i] != ' ' && text_block[i] != (char)round;
            words += letter && !inside;
            inside = letter;
        }
        sink += words;
    }
}
NAMED multiply_matrix(uint64_t rounds) {
    double a[64], b[64], c[64];
    for (int i = 0; i < 64; i++) a[i] = i + 1, b[i] = 1.0 / (i + 1);
    for (uint64_t round = 0; round < rounds; round++) {
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 8; j++) {
                double sum = 0;
                for (int k = 0; k < 8; k++) sum += a[i * 8 + k] * b[k * 8 + j];
                c[i * 8 + j] = sum;
            }
        b[round % 64] = c[(round + 9) % 64] * 1e-3;
    }
    sink += (uint64_t)c[3];
}
NAMED parse_numbers(uint64_t rounds) {
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t number = 0, sum = 0;
        for (size_t i = 0; i < sizeof text_block; i++) {
            char letter = text_block[i];
            if (letter >= 'a' && letter <= 'z') number = number * 10 + (letter - 'a');
            else sum += number % (round + 3), number = 0;
        }
        sink += sum;
    }
}
NAMED compact_store(uint64_t rounds) {
    for (uint64_t round = 0; round < rounds; round++)
        for (size_t i = 64; i < 4096; i += 8) {
            uint64_t one;
            memcpy(&one, scratch + i, 8);
            one = one * 6364136223846793005u + round;
            memcpy(scratch + i - 64, &one, 8);
        }
    sink += scratch[128];
}

static work_function named(const char *name) {
    static const struct { const char *name; work_function function; } all[] = {
        {"sort_records", sort_records}, {"hash_blocks", hash_blocks}, {"scan_text", scan_text},
        {"multiply_matrix", multiply_matrix}, {"parse_numbers", parse_numbers}, {"compact_store", compact_store}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(name, all[i].name)) return all[i].function;
    return NULL;
}

// Rounds in a microsecond, so that a plan may say how long; afterwards the same rounds are always done.
static struct work make_work(const char *inside, const char *function, uint64_t us) {
    struct work work = {.us = us};
    if (strcmp(inside, "burn")) return work;
    work.function = named(function);
    if (!work.function) fail(function);
    double best = 0;
    for (int try = 0; try < 5; try++) {
        uint64_t rounds = 256, began, took;
        for (;; rounds *= 2) {
            began = cpu();
            work.function(rounds);
            if ((took = cpu() - began) > 2000000) break;
        }
        if (rounds * 1e3 / took > best) best = rounds * 1e3 / took;
    }
    work.rounds_per_us = best;
    return work;
}

// How long this thread has been ready without a CPU, ns: the second number of its schedstat.
static uint64_t ready_ns(void) {
    static __thread int fd = -1;
    if (fd < 0) fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    char text[96];
    ssize_t length = pread(fd, text, sizeof text - 1, 0);
    if (length <= 0) return 0;
    text[length] = 0;
    unsigned long ran, ready = 0;
    sscanf(text, "%lu %lu", &ran, &ready);
    return ready;
}

static void sleep_until(uint64_t when) {
    struct timespec at = {when / 1000000000, when % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {}
}

// Sleeps; for how long it then stood in line for a CPU. A timer that fires late, or a CPU that comes out of its idle state
// late, is a longer sleep.
static uint64_t sleep_for(uint64_t us) {
    uint64_t ready = ready_ns();
    sleep_until(wall() + us * 1000);
    return ready_ns() - ready;
}

// Does the work; how much later than asked it was done for want of a CPU.
static uint64_t do_work(const struct work *work) {
    if (work->function) {
        uint64_t rounds = work->us * work->rounds_per_us;
        work->function(rounds ? rounds : 1);
        return 0;
    }
    return sleep_for(work->us);
}

// ---- the account ----

static uint32_t *row;
struct times { uint64_t wall, cpu; };
static struct times now(void) { return (struct times){wall(), cpu()}; }

static void note(int column, struct times from, struct times to, uint64_t late) {
    uint32_t *cell = row + FIXED + 3 * column;
    cell[0] += to.wall - from.wall;
    cell[1] += to.cpu - from.cpu;
    cell[2] += late;
}

// ---- steps ----

static void send_all(int fd, const char *data, size_t length) {
    while (length) {
        ssize_t sent = send(fd, data, length, MSG_NOSIGNAL);
        if (sent > 0) {
            data += sent, length -= sent;
        } else if (errno == EAGAIN) {
            struct pollfd wait = {fd, POLLOUT, 0};
            if (poll(&wait, 1, 2000) <= 0) return;
        } else {
            return;
        }
    }
}

// The kernel's stamp on what a message brought, by the monotonic clock; 0 for none.
static uint64_t stamp_of(struct msghdr *message, uint64_t real_minus_monotonic) {
    for (struct cmsghdr *one = CMSG_FIRSTHDR(message); one; one = CMSG_NXTHDR(message, one))
        if (one->cmsg_level == SOL_SOCKET && one->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec at;
            memcpy(&at, CMSG_DATA(one), sizeof at);
            return (uint64_t)at.tv_sec * 1000000000 + at.tv_nsec - real_minus_monotonic;
        }
    return 0;
}

// One message each way on `count` connections; how long after the last one's arrival it was read. What the peer itself
// says of the time would count its own sending.
static uint64_t ask(const int *fds, int count) {
    uint64_t answer = 0, last = 0;
    for (int i = 0; i < count; i++)
        if (write(fds[i], &answer, 8) != 8) fail("upstream");
    for (int i = 0; i < count; i++) {
        char control[256];
        struct iovec space = {&answer, 8};
        struct msghdr message = {.msg_iov = &space, .msg_iovlen = 1, .msg_control = control,
                                 .msg_controllen = sizeof control};
        if (recvmsg(fds[i], &message, 0) != 8) fail("upstream");
        uint64_t arrived = stamp_of(&message, clock_ns(CLOCK_REALTIME) - wall());
        if (arrived > last) last = arrived;
    }
    uint64_t read_at = wall();
    return last && read_at > last ? read_at - last : 0;
}

static void run_step(const struct step *step, int client) {
    // A disk has no stamp of its own that says when it was done; the kernel knows how long the thread stood in line then.
    int waits_for_disk = step->synced ? step->kind == LOG : step->kind == FILE_READ;
    uint64_t ready = waits_for_disk ? ready_ns() : 0;
    struct times from = now();
    uint64_t late = 0;
    switch (step->kind) {
    case BURN:
    case SLEEP: late = do_work(&step->work); break;
    case LOCK: {
        pthread_mutex_lock(&locks[step->index]);
        struct times held = now();
        uint64_t free_at = released_at[step->index] > from.wall ? released_at[step->index] : held.wall;
        note(step->column, from, held, held.wall - free_at);
        late = do_work(&step->work);
        note(step->column + 1, held, now(), late);
        released_at[step->index] = wall();
        pthread_mutex_unlock(&locks[step->index]);
        return;
    }
    case UPSTREAM:
        if (step->at_once) late = ask(peers[step->index], step->turns);
        else for (int i = 0; i < step->turns; i++) late += ask(peers[step->index], 1);
        break;
    case FILE_READ:
        if (!step->synced) posix_fadvise(step->file, 0, step->bytes, POSIX_FADV_DONTNEED);
        for (size_t at = 0; at < step->bytes;) {
            ssize_t got = pread(step->file, scratch, step->bytes - at < sizeof scratch ? step->bytes - at : sizeof scratch, at);
            if (got <= 0) fail("file");
            at += got;
        }
        break;
    case LOG:
        for (int i = 0; i < (step->synced ? step->synced : 1); i++) {
            if (write(log_file, body, step->bytes) < 0) fail("log");
            if (step->synced && fdatasync(log_file)) fail("log");
        }
        break;
    case ALLOCATE: {
        char *memory = mmap(NULL, step->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (size_t at = 0; at < step->bytes; at += 4096) memory[at] = 1;
        munmap(memory, step->bytes);
        break;
    }
    case PIECES:
        send_all(client, head, head_length);
        for (size_t i = 0; i < step->pieces; i++) {
            if (i && step->gap_us) late += sleep_for(step->gap_us);
            send_all(client, body, response_bytes / step->pieces);
        }
        break;
    }
    struct times to = now();
    note(step->column, from, to, waits_for_disk ? ready_ns() - ready : late);
}

static void *hold_lock(void *argument) {
    struct holder { int lock; uint64_t pause_us; struct work work; } *holder = argument;
    uint32_t seed = 11;
    for (;;) {
        pthread_mutex_lock(&locks[holder->lock]);
        do_work(&holder->work);
        released_at[holder->lock] = wall();
        pthread_mutex_unlock(&locks[holder->lock]);
        seed = seed * 1664525 + 1013904223;
        sleep_until(wall() + holder->pause_us * (500 + seed % 1000));
    }
    return NULL;
}

// ---- the plan ----

static int connect_to(int peer_port) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(peer_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) fail("upstream");
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    return fd;
}

static void read_step(const char *line) {
    struct step *step = &steps[step_count++];
    char kind[16], one[512], two[64];
    unsigned long a = 0, b = 0;
    int c = 0;
    sscanf(line, "step %15s %d", kind, &step->column);
    const char *rest = line + 5 + strlen(kind) + 1;
    if (!strcmp(kind, "burn") && sscanf(rest, "%*d %63s %lu", two, &a) == 2) {
        step->kind = BURN, step->work = make_work("burn", two, a);
    } else if (!strcmp(kind, "sleep") && sscanf(rest, "%*d %lu", &a) == 1) {
        step->kind = SLEEP, step->work = make_work("sleep", "-", a);
    } else if (!strcmp(kind, "lock") && sscanf(rest, "%*d %d %500s %63s %lu", &step->index, one, two, &a) == 4) {
        step->kind = LOCK, step->work = make_work(one, two, a);
    } else if (!strcmp(kind, "upstream")
               && sscanf(rest, "%*d %d %d %d", &step->index, &step->turns, &step->at_once) == 3) {
        step->kind = UPSTREAM;
    } else if (!strcmp(kind, "file") && sscanf(rest, "%*d %500s %lu %d", one, &a, &c) == 3) {
        step->kind = FILE_READ, step->bytes = a, step->synced = c;
        if ((step->file = open(one, O_RDONLY)) < 0) fail(one);
    } else if (!strcmp(kind, "log") && sscanf(rest, "%*d %lu %d", &a, &c) == 2) {
        step->kind = LOG, step->bytes = a, step->synced = c;
    } else if (!strcmp(kind, "allocate") && sscanf(rest, "%*d %lu", &a) == 1) {
        step->kind = ALLOCATE, step->bytes = a;
    } else if (!strcmp(kind, "pieces") && sscanf(rest, "%*d %lu %lu", &a, &b) == 2) {
        step->kind = PIECES, step->pieces = a, step->gap_us = b;
    } else {
        fprintf(stderr, "not understood: %s", line);
        exit(2);
    }
}

static void read_plan(const char *path) {
    FILE *plan = fopen(path, "r");
    char line[1024], name[512], two[64];
    unsigned long a, b, c;
    int index;
    if (!plan) fail(path);
    while (fgets(line, sizeof line, plan)) {
        if (sscanf(line, "port %d", &port) == 1 || sscanf(line, "response %zu", &response_bytes) == 1
            || sscanf(line, "columns %d", &column_count) == 1) {
        } else if (sscanf(line, "records %500s %lu", name, &a) == 2) {
            capacity = a;
            int fd = open(name, O_RDWR);
            size_t size = lseek(fd, 0, SEEK_END);
            records = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
            if (records == MAP_FAILED) fail(name);
        } else if (sscanf(line, "log %500s", name) == 1) {
            if ((log_file = open(name, O_WRONLY | O_CREAT | O_APPEND, 0644)) < 0) fail(name);
        } else if (sscanf(line, "upstream %d %lu", &index, &a) == 2) {
            for (int i = 0; i < MOST_TURNS; i++) peers[index][i] = connect_to(a);
        } else if (sscanf(line, "holder %d %lu %lu %500s %63s", &index, &a, &b, name, two) == 5) {
            struct holder { int lock; uint64_t pause_us; struct work work; } *holder = malloc(sizeof *holder);
            *holder = (struct holder){index, b, make_work(name, two, a)};
            pthread_t thread;
            pthread_create(&thread, NULL, hold_lock, holder);
        } else if (sscanf(line, "stall %lu %lu %500s %63s", &a, &b, name, two) == 4) {
            stall_every_ns = a * 1000000, stall_work = make_work(name, two, b);
        } else if (!strncmp(line, "step ", 5)) {
            read_step(line);
        } else if (sscanf(line, "threads %lu", &c) != 1) {
            fprintf(stderr, "not understood: %s", line);
            exit(2);
        }
    }
    fclose(plan);
    head_length = sprintf(head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", response_bytes);
    row_width = FIXED + 3 * column_count;
}

// ---- the loop ----

static void serve(int client, uint64_t arrived, struct times from) {
    row = records->rows + (records->next % capacity) * row_width;
    memset(row, 0, row_width * sizeof *row);
    int in_pieces = 0;
    for (int i = 0; i < step_count; i++) {
        in_pieces |= steps[i].kind == PIECES;
        run_step(&steps[i], client);
    }
    if (!in_pieces) {
        memcpy(scratch, head, head_length);
        memcpy(scratch + head_length, body, response_bytes);
        send_all(client, scratch, head_length + response_bytes);
    }
    struct times done = now();
    memcpy(row, &done.wall, 8);
    row[2] = arrived && arrived <= from.wall ? from.wall - arrived : arrived ? 0 : UNKNOWN;
    row[3] = done.wall - from.wall;
    row[4] = done.cpu - from.cpu;
    __atomic_store_n(&records->next, records->next + 1, __ATOMIC_RELEASE);
}

// Reads what is there; when that ends a request, serves it. False when the connection is over.
static int readable(int client, uint64_t real_minus_monotonic) {
    static struct { size_t length; uint64_t arrived; char data[4096]; } part[MOST_FDS];
    if (client >= MOST_FDS) return 0;
    struct times from = now();
    char control[256];
    struct iovec space = {part[client].data + part[client].length, sizeof part[client].data - part[client].length};
    struct msghdr message = {.msg_iov = &space, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(client, &message, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return 1;
    if (got <= 0) {
        part[client].length = part[client].arrived = 0;
        return 0;
    }
    from.wall = wall();
    if (!part[client].arrived) part[client].arrived = stamp_of(&message, real_minus_monotonic);
    part[client].length += got;
    if (part[client].length >= 4 && !memcmp(part[client].data + part[client].length - 4, "\r\n\r\n", 4)) {
        serve(client, part[client].arrived, from);
        part[client].length = part[client].arrived = 0;
    }
    return part[client].length < sizeof part[client].data;
}

static void stall_when_due(void) {
    if (!stall_every_ns || wall() < stall_at) return;
    uint64_t from = wall(), from_cpu = cpu();
    do_work(&stall_work);
    uint64_t *slot = records->stall[records->stalls % STALLS];
    slot[0] = from, slot[1] = wall(), slot[2] = cpu() - from_cpu;
    __atomic_store_n(&records->stalls, records->stalls + 1, __ATOMIC_RELEASE);
    stall_at = from + stall_every_ns;
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    for (size_t i = 0; i < sizeof text_block; i++) text_block[i] = i % 7 == 6 ? ' ' : 'a' + i % 26;
    memset(body, 'x', sizeof body);
    read_plan(arguments[1]);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1, loop = epoll_create1(0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1024)) fail("listen");
    struct epoll_event event = {EPOLLIN, {.fd = listener}}, events[256];
    epoll_ctl(loop, EPOLL_CTL_ADD, listener, &event);
    stall_at = wall() + stall_every_ns;
    for (;;) {
        int wait_ms = -1;
        if (stall_every_ns) {
            int64_t left = (int64_t)(stall_at - wall());
            wait_ms = left > 0 ? left / 1000000 + 1 : 0;
        }
        int ready = epoll_wait(loop, events, 256, wait_ms);
        uint64_t difference = clock_ns(CLOCK_REALTIME) - wall();
        stall_when_due();
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd != listener) {
                if (!readable(fd, difference)) close(fd);
                stall_when_due();
                continue;
            }
            int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
            if (client < 0) continue;
            setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            setsockopt(client, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
            event = (struct epoll_event){EPOLLIN, {.fd = client}};
            epoll_ctl(loop, EPOLL_CTL_ADD, client, &event);
        }
    }
}
