/* A server on libevent's evhttp with one habit, given by name: evhttp_app PORT HABIT. */
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROWS 1500
#define FILES 30
#define LONGEST_ROW 80

static char text[1024];
static struct event_base *base;

static void send_text(struct evhttp_request *request, const char *what, size_t length)
{
    struct evbuffer *buffer = evbuffer_new();
    evbuffer_add(buffer, what, length);
    evhttp_send_reply(request, HTTP_OK, "OK", buffer);
    evbuffer_free(buffer);
}

static void plain(struct evhttp_request *request, void *unused)
{
    (void)unused;
    send_text(request, text, sizeof text);
}

/* ---- a table of many rows ---- */

static void write_row(char *row, int n)
{
    snprintf(row, LONGEST_ROW, "<tr><td>valve %d</td><td>open and shut</td></tr>\n", n);
}

/* Each row is put behind the others where strcat finds their end. */
static void table_by_strcat(struct evhttp_request *request, void *unused)
{
    (void)unused;
    char *page = malloc(ROWS * LONGEST_ROW), row[LONGEST_ROW];
    page[0] = '\0';
    for (int n = 0; n < ROWS; n++) {
        write_row(row, n);
        strcat(page, row);
    }
    send_text(request, page, strlen(page));
    free(page);
}

static void table_at_its_end(struct evhttp_request *request, void *unused)
{
    (void)unused;
    char *page = malloc(ROWS * LONGEST_ROW), *end = page;
    for (int n = 0; n < ROWS; n++) {
        write_row(end, n);
        end += strlen(end);
    }
    send_text(request, page, end - page);
    free(page);
}

/* ---- a list of files with their owners ---- */

static const char *looked_up(uid_t id)
{
    struct passwd *entry = getpwuid(id);
    return entry ? entry->pw_name : "?";
}

static const char *remembered(uid_t id)
{
    static char name[64];
    static uid_t of;
    if (name[0] == '\0' || of != id)
        snprintf(name, sizeof name, "%s", looked_up(of = id));
    return name;
}

static void list(struct evhttp_request *request, void *owner_of)
{
    const char *(*owner)(uid_t) = owner_of;
    struct evbuffer *buffer = evbuffer_new();
    for (int n = 0; n < FILES; n++)
        evbuffer_add_printf(buffer, "%-12s drawing-%d.pdf\n", owner(getuid()), n);
    evhttp_send_reply(request, HTTP_OK, "OK", buffer);
    evbuffer_free(buffer);
}

/* ---- work that a thread of its own does ---- */

struct job {
    struct evhttp_request *request;
    unsigned sum;
    STAILQ_ENTRY(job) next;
};
STAILQ_HEAD(jobs, job);
static struct jobs asked = STAILQ_HEAD_INITIALIZER(asked), done = STAILQ_HEAD_INITIALIZER(done);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some_asked = PTHREAD_COND_INITIALIZER;
static int wake[2] = {-1, -1};

static void *work(void *unused)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        while (STAILQ_EMPTY(&asked))
            pthread_cond_wait(&some_asked, &lock);
        struct job *job = STAILQ_FIRST(&asked);
        STAILQ_REMOVE_HEAD(&asked, next);
        pthread_mutex_unlock(&lock);
        for (int n = 0; n < 2000; n++)
            job->sum = job->sum * 31 + text[n % sizeof text];
        pthread_mutex_lock(&lock);
        STAILQ_INSERT_TAIL(&done, job, next);
        pthread_mutex_unlock(&lock);
        if (wake[1] >= 0 && write(wake[1], "", 1) < 0)
            exit(1);
    }
    return unused;
}

static void hand_over(struct evhttp_request *request, void *unused)
{
    (void)unused;
    struct job *job = calloc(1, sizeof *job);
    job->request = request;
    pthread_mutex_lock(&lock);
    STAILQ_INSERT_TAIL(&asked, job, next);
    pthread_cond_signal(&some_asked);
    pthread_mutex_unlock(&lock);
}

/* What is done is taken back by the loop, which alone may touch connections. */
static void take_back(evutil_socket_t from, short what, void *unused)
{
    (void)unused;
    char bytes[256];
    if ((what & EV_READ) && read(from, bytes, sizeof bytes) < 0)
        exit(1);
    struct jobs mine = STAILQ_HEAD_INITIALIZER(mine);
    pthread_mutex_lock(&lock);
    STAILQ_CONCAT(&mine, &done);
    pthread_mutex_unlock(&lock);
    while (!STAILQ_EMPTY(&mine)) {
        struct job *job = STAILQ_FIRST(&mine);
        STAILQ_REMOVE_HEAD(&mine, next);
        char said[32];
        send_text(job->request, said, snprintf(said, sizeof said, "%u\n", job->sum));
        free(job);
    }
}

static void start_worker(int wakes)
{
    struct timeval tick = {.tv_usec = 10000};
    pthread_t thread;
    if (wakes && pipe(wake) != 0)
        exit(1);
    event_add(event_new(base, wakes ? wake[0] : -1, (wakes ? EV_READ : 0) | EV_PERSIST, take_back, NULL), wakes ? NULL : &tick);
    if (pthread_create(&thread, NULL, work, NULL) != 0)
        exit(1);
}

int main(int count, char **values)
{
    const char *habit = count > 2 ? values[2] : "";
    /* Who goes away before the end of a page must not end the program. */
    signal(SIGPIPE, SIG_IGN);
    memset(text, 'x', sizeof text);
    base = event_base_new();
    struct evhttp *server = evhttp_new(base);
    if (strcmp(habit, "strcat") == 0)
        evhttp_set_gencb(server, table_by_strcat, NULL);
    else if (strcmp(habit, "at-its-end") == 0)
        evhttp_set_gencb(server, table_at_its_end, NULL);
    else if (strcmp(habit, "owners") == 0)
        evhttp_set_gencb(server, list, looked_up);
    else if (strcmp(habit, "owners-kept") == 0)
        evhttp_set_gencb(server, list, remembered);
    else if (strcmp(habit, "ticks") == 0 || strcmp(habit, "wakes") == 0) {
        start_worker(strcmp(habit, "wakes") == 0);
        evhttp_set_gencb(server, hand_over, NULL);
    } else
        evhttp_set_gencb(server, plain, NULL);
    struct evhttp_bound_socket *bound = evhttp_bind_socket_with_handle(server, "127.0.0.1", atoi(values[1]));
    if (bound == NULL)
        return 1;
    /* The library leaves Nagle's algorithm on and sends a long page in pieces. Connections have what the listening socket has. */
    int at_once = 1;
    setsockopt(evhttp_bound_socket_get_fd(bound), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    return event_base_dispatch(base);
}
