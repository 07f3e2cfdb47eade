/* A server on libcivetweb with a thread for each connection of the load and one habit: PORT HABIT [SERVICE_PORT]. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <civetweb.h>

enum { PRICES = 1500, BODY = 1024, ROOM = 8192 };

static char text[BODY + 1];
static char prices[PRICES * 16];
static int service_port;

/* ---- a price list as its vendor sends it: a line with a number and a price for each part ---- */

static void get_price_list(void)
{
    char *end = prices;
    for (int part = 0; part < PRICES; part++)
        end += sprintf(end, "%d %d\n", part, part * 37 % 9000);
}

static long sum_by_sscanf(void)
{
    long sum = 0;
    int part, price, length;
    for (const char *at = prices; sscanf(at, "%d %d%n", &part, &price, &length) == 2; at += length)
        sum += price;
    return sum;
}

static long sum_by_strtol(void)
{
    long sum = 0;
    for (char *at = prices; *at; at++) {
        strtol(at, &at, 10);
        sum += strtol(at, &at, 10);
    }
    return sum;
}

/* ---- a device that is asked, by a connection for each thread ---- */

static int connected(void)
{
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(service_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int device = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(device, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(device, (struct sockaddr *)&where, sizeof where) != 0)
        abort();
    return device;
}

static void read_device(char *answer)
{
    static const char question[] = "GET / HTTP/1.1\r\nHost: device\r\n\r\n";
    static __thread int device;
    char head[ROOM];
    size_t got = 0, whole = ROOM;
    if (!device)
        device = connected();
    if (write(device, question, sizeof question - 1) < 0)
        abort();
    while (got < whole) {
        const ssize_t more = read(device, head + got, ROOM - 1 - got);
        if (more <= 0)
            abort();
        head[got += more] = 0;
        const char *end = strstr(head, "\r\n\r\n"), *length = strcasestr(head, "content-length:");
        if (end && length)
            whole = end + 4 - head + atol(length + 15);
    }
    memcpy(answer, head + whole - BODY, BODY);
}

/* ---- answers ---- */

static int reply(struct mg_connection *client, const char *body, size_t length)
{
    mg_send_http_ok(client, "text/plain", (long long)length);
    mg_write(client, body, length);
    return 200;
}

static int plain(struct mg_connection *client, void *unused)
{
    return reply(client, text, BODY);
}

static int total(struct mg_connection *client, void *sum_of_prices)
{
    char body[64];
    long (*const sum)(void) = (long (*)(void))sum_of_prices;
    return reply(client, body, (size_t)sprintf(body, "the parts cost %ld\n", sum()));
}

/* What the device said last belongs to all threads, and the library has a lock for such things. */
static char last_reading[BODY];

static int reading_under_the_lock(struct mg_connection *client, void *unused)
{
    char mine[BODY];
    mg_lock_context(mg_get_context(client));
    read_device(last_reading);
    memcpy(mine, last_reading, BODY);
    mg_unlock_context(mg_get_context(client));
    return reply(client, mine, BODY);
}

static int reading(struct mg_connection *client, void *unused)
{
    char mine[BODY];
    read_device(mine);
    mg_lock_context(mg_get_context(client));
    memcpy(last_reading, mine, BODY);
    mg_unlock_context(mg_get_context(client));
    return reply(client, mine, BODY);
}

static const struct {
    const char *name;
    mg_request_handler answer;
    void *with;
} habits[] = {
    {"plain", plain, NULL},
    {"default-options", plain, NULL},
    {"sscanf", total, sum_by_sscanf},
    {"strtol", total, sum_by_strtol},
    {"reading-under-the-lock", reading_under_the_lock, NULL},
    {"reading", reading, NULL},
};

int main(int count, char **values)
{
    char where[32];
    snprintf(where, sizeof where, "127.0.0.1:%s", values[1]);
    service_port = count > 3 ? atoi(values[3]) : 0;
    /* Connections are closed after a request, and Nagle's algorithm is on, unless somebody says otherwise. */
    const char *keep_alive = strcmp(values[2], "default-options") == 0 ? "no" : "yes";
    const char *options[] = {"listening_ports", where, "num_threads", "64", "tcp_nodelay", "1", "enable_keep_alive", keep_alive,
                             "keep_alive_timeout_ms", "60000", NULL};
    signal(SIGPIPE, SIG_IGN);
    memset(text, 'x', BODY);
    get_price_list();
    mg_init_library(0);
    struct mg_context *server = mg_start(NULL, NULL, options);
    if (!server)
        return 1;
    for (size_t n = 0; n < sizeof habits / sizeof *habits; n++)
        if (strcmp(values[2], habits[n].name) == 0)
            mg_set_request_handler(server, "/$", habits[n].answer, habits[n].with);
    pause();
    return 0;
}
