// A server on libwebsockets with one habit, given by name: lws_app PORT HABIT [ARGUMENT].
//   list            valves, put together for each request
//   gauge S         the level that a gauge at port S says, asked within the callback
//   gauge-kept S    the same, asked once a second
//   reading N       the next reading, which comes each 20 ms; requests have N tables for their heads among them
//   drawings N      files of $DRAWINGS, by a buffer of N bytes
#include <libwebsockets.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { VALVES = 20, BODY = 2048, HEAD = 512, READING_US = 20 * 1000, DEFAULT_TABLES = 64, DEFAULT_BUFFER = 4096 };

struct session {
    char body[BODY];
    int length, waiting;
};

static const char *habit, *argument;
static struct lws_context *context;
static lws_sorted_usec_list_t next_reading;
static int readings;

static int is(const char *name) { return strcmp(habit, name) == 0; }

/// What the gauge says, on a connection that is kept. It is one short answer in one piece.
static void ask_gauge(char *into, size_t size)
{
    static int gauge = -1;
    static const char request[] = "GET /level HTTP/1.1\r\nHost: gauge\r\n\r\n";
    if (gauge < 0) {
        struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(atoi(argument))};
        where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        gauge = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(gauge, (struct sockaddr *)&where, sizeof where) != 0)
            exit(EXIT_FAILURE);
    }
    char answer[HEAD] = "";
    if (write(gauge, request, sizeof request - 1) < 0 || read(gauge, answer, sizeof answer - 1) <= 0)
        exit(EXIT_FAILURE);
    const char *said = strstr(answer, "\r\n\r\n");
    snprintf(into, size, "level: %s\n", said ? said + 4 : "?");
}

static void keep_gauge(char *into, size_t size)
{
    static char kept[64];
    static lws_usec_t asked;
    if (!asked || lws_now_usecs() - asked > LWS_US_PER_SEC) {
        ask_gauge(kept, sizeof kept);
        asked = lws_now_usecs();
    }
    snprintf(into, size, "%s", kept);
}

static void list(char *into, size_t size)
{
    static int turn;
    size_t length = 0;
    turn++;
    for (int n = 0; n < VALVES; n++)
        length += snprintf(into + length, size - length, "valve %d: %s, %d.%d bar\n", turn + n, n % 3 ? "open" : "shut",
                           n % 7, turn % 10);
}

static void fill(struct session *session)
{
    if (is("gauge"))
        ask_gauge(session->body, BODY);
    else if (is("gauge-kept"))
        keep_gauge(session->body, BODY);
    else if (is("reading"))
        snprintf(session->body, BODY, "reading %d\n", readings);
    else
        list(session->body, BODY);
    session->length = strlen(session->body);
}

/// Head and body in one piece.
static int answer(struct lws *wsi, struct session *session)
{
    unsigned char room[LWS_PRE + HEAD + BODY], *start = room + LWS_PRE, *at = start, *end = start + HEAD;
    fill(session);
    if (lws_add_http_common_headers(wsi, HTTP_STATUS_OK, "text/plain", session->length, &at, end)
        || lws_finalize_http_header(wsi, &at, end))
        return -1;
    memcpy(at, session->body, session->length);
    at += session->length;
    if (lws_write(wsi, start, at - start, LWS_WRITE_HTTP_FINAL) < 0)
        return -1;
    return lws_http_transaction_completed(wsi) ? -1 : 0;
}

static int file(struct lws *wsi, const char *directory, const char *path)
{
    char where[256];
    snprintf(where, sizeof where, "%s/%s", directory, path);
    int sent = lws_serve_http_file(wsi, where, "application/octet-stream", NULL, 0);
    return sent < 0 || (sent > 0 && lws_http_transaction_completed(wsi)) ? -1 : 0;
}

static int on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t length)
{
    struct session *session = user;
    switch (reason) {
    case LWS_CALLBACK_HTTP:
        if (is("drawings"))
            return file(wsi, getenv("DRAWINGS"), in);
        session->waiting = is("reading");
        return session->waiting ? 0 : answer(wsi, session);
    case LWS_CALLBACK_HTTP_WRITEABLE:
        if (!session || !session->waiting)
            break;
        session->waiting = 0;
        return answer(wsi, session);
    case LWS_CALLBACK_HTTP_FILE_COMPLETION:
        return lws_http_transaction_completed(wsi) ? -1 : 0;
    default:
        break;
    }
    return lws_callback_http_dummy(wsi, reason, user, in, length);
}

static const struct lws_protocols protocols[] = {
    {"http", on_event, sizeof(struct session), 0, 0, NULL, 0},
    {NULL, NULL, 0, 0, 0, NULL, 0},
};

/// All who wait are told of the new reading.
static void read_on(lws_sorted_usec_list_t *list)
{
    (void)list;
    readings++;
    lws_callback_on_writable_all_protocol(context, &protocols[0]);
    lws_sul_schedule(context, 0, &next_reading, read_on, READING_US);
}

int main(int count, char **arguments)
{
    if (count < 3)
        return EXIT_FAILURE;
    habit = arguments[2];
    argument = count > 3 ? arguments[3] : "0";
    signal(SIGPIPE, SIG_IGN);
    lws_set_log_level(LLL_ERR, NULL);
    struct lws_context_creation_info info = {
        .port = atoi(arguments[1]), .iface = "127.0.0.1", .protocols = protocols, .gid = -1, .uid = -1,
        .keepalive_timeout = 60,
        .max_http_header_pool = is("reading") ? atoi(argument) : DEFAULT_TABLES,
        .pt_serv_buf_size = is("drawings") ? atoi(argument) : DEFAULT_BUFFER,
    };
    context = lws_create_context(&info);
    if (!context)
        return EXIT_FAILURE;
    if (is("reading"))
        lws_sul_schedule(context, 0, &next_reading, read_on, READING_US);
    while (lws_service(context, 0) >= 0)
        continue;
    lws_context_destroy(context);
    return EXIT_SUCCESS;
}
