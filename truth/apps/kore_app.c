// Pages of a plant as a module of the server Kore; which one is its route's. $DATABASE is PostgreSQL's port, and
// $RECOUNT_MS says how often the middle of all readings is looked for.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kore/kore.h>
#include <kore/http.h>
#include <kore/pgsql.h>
#include <kore/seccomp.h>

// What libpq calls, beyond what Kore lets through by itself.
KORE_SECCOMP_FILTER("libpq",
    KORE_SYSCALL_ALLOW(newfstatat), KORE_SYSCALL_ALLOW(getdents64), KORE_SYSCALL_ALLOW(setsockopt),
    KORE_SYSCALL_ALLOW(getrandom), KORE_SYSCALL_ALLOW(mremap), KORE_SYSCALL_ALLOW(rt_sigaction),
    KORE_SYSCALL_ALLOW(rt_sigprocmask))

enum { VALVES = 20000, READINGS = 2000000 };

// A row of a store that is far from its database: 5 ms go by until it has come.
static const char *const FAR = "select note, pg_sleep(0.005) from valves where id = %d";

static int readings[READINGS], middle;

int page(struct http_request *);
int far_row(struct http_request *);
int letter(struct http_request *);
void kore_worker_configure(void);

static int by_size(const void *one, const void *other) {
    const int a = *(const int *)one, b = *(const int *)other;
    return (a > b) - (a < b);
}

// New readings have come from all tanks, and are sorted for the one in the middle.
static void find_middle(void *unused, u_int64_t now) {
    (void)unused, (void)now;
    unsigned state = 7;
    for (int n = 0; n < READINGS; n++) readings[n] = (int)((state = state * 1103515245u + 12345u) >> 8);
    qsort(readings, READINGS, sizeof *readings, by_size);
    middle = readings[READINGS / 2];
}

void kore_worker_configure(void) {
    const char *port = getenv("DATABASE"), *recount = getenv("RECOUNT_MS");
    if (port != NULL) {
        char where[80];
        snprintf(where, sizeof where, "host=127.0.0.1 port=%s user=truth dbname=postgres", port);
        kore_pgsql_register("plant", where);
    }
    if (recount != NULL) {
        find_middle(NULL, 0);
        kore_timer_add(find_middle, strtoull(recount, NULL, 10), NULL, 0);
    }
}

int page(struct http_request *request) {
    char text[64];
    const int length = snprintf(text, sizeof text, "half of all readings are below %d\n", middle);
    http_response(request, 200, text, (size_t)length);
    return KORE_RESULT_OK;
}

static void forget(struct http_request *request) {
    kore_pgsql_cleanup(http_state_get(request));
}

// Is called again whenever a connection is free or the database has said something.
int far_row(struct http_request *request) {
    struct kore_pgsql *sql;
    char query[128];
    if (!http_state_exists(request)) {
        sql = http_state_create(request, sizeof *sql, forget);
        kore_pgsql_init(sql);
        kore_pgsql_bind_request(sql, request);
    }
    sql = http_state_get(request);
    if (sql->conn == NULL && sql->state == KORE_PGSQL_STATE_INIT) {
        if (!kore_pgsql_setup(sql, "plant", KORE_PGSQL_ASYNC)) {
            return sql->state == KORE_PGSQL_STATE_INIT ? KORE_RESULT_RETRY : KORE_RESULT_ERROR;
        }
        snprintf(query, sizeof query, FAR, 1 + rand() % VALVES);
        if (!kore_pgsql_query(sql, query)) return KORE_RESULT_ERROR;
    }
    for (;;) {
        switch (sql->state) {
        case KORE_PGSQL_STATE_WAIT:
            return KORE_RESULT_RETRY;
        case KORE_PGSQL_STATE_RESULT: {
            const char *note = kore_pgsql_getvalue(sql, 0, 0);
            http_response(request, 200, note, strlen(note));
            kore_pgsql_continue(sql);
            break;
        }
        case KORE_PGSQL_STATE_COMPLETE:
            return KORE_RESULT_OK;
        case KORE_PGSQL_STATE_ERROR:
            kore_pgsql_logerror(sql);
            return KORE_RESULT_ERROR;
        default:
            kore_pgsql_continue(sql);
        }
    }
}

// A letter comes with the request, and its lines are counted.
int letter(struct http_request *request) {
    char part[4096], text[64];
    int lines = 0;
    for (ssize_t got; (got = http_body_read(request, part, sizeof part)) > 0;) {
        for (ssize_t n = 0; n < got; n++) lines += part[n] == '\n';
    }
    const int length = snprintf(text, sizeof text, "%d lines\n", lines);
    http_response(request, 200, text, (size_t)length);
    return KORE_RESULT_OK;
}
