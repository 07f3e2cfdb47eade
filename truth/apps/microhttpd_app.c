/* A server on libmicrohttpd with one habit, given by name: microhttpd_app PORT HABIT [SERVICE_PORT]. */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LARGE 16384
#define AGENT "^(.*;)? *(mozilla|opera|lynx|curl|wget|prony)[/ ]([0-9]+)\\.([0-9]+).*(bot|spider|crawl)?$"

static const char *habit;
static int service_port;
static char body[LARGE];
static regex_t agent;

/* Asks the service over this thread's connection. */
static void ask(void)
{
    static __thread int service = -1;
    static const char question[] = "GET /bytes/16 HTTP/1.1\r\nHost: service\r\n\r\n";
    char answer[4096];
    if (service < 0) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(service_port)};
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        service = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(service, (struct sockaddr *)&address, sizeof address) != 0)
            exit(1);
    }
    if (write(service, question, sizeof question - 1) < 0 || read(service, answer, sizeof answer) <= 0)
        exit(1);
}

static int is_robot(const regex_t *pattern)
{
    return regexec(pattern, "prony/0.1 load generator", 0, NULL, 0) == 0;
}

/* The pattern is made where it is used. */
static void match_afresh(void)
{
    regex_t mine;
    if (regcomp(&mine, AGENT, REG_EXTENDED | REG_ICASE) != 0)
        exit(1);
    is_robot(&mine);
    regfree(&mine);
}

static ssize_t piece(void *unused, uint64_t at, char *into, size_t most)
{
    (void)unused;
    size_t left = LARGE - at;
    if (left == 0)
        return MHD_CONTENT_READER_END_OF_STREAM;
    size_t now = left < most ? left : most;
    memcpy(into, body + at, now);
    return now;
}

static struct MHD_Response *answer(void)
{
    if (strcmp(habit, "small-blocks") == 0)
        return MHD_create_response_from_callback(LARGE, 128, piece, NULL, NULL);
    if (strcmp(habit, "large-blocks") == 0)
        return MHD_create_response_from_callback(LARGE, LARGE, piece, NULL, NULL);
    return MHD_create_response_from_buffer(1024, body, MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result serve(void *unused, struct MHD_Connection *connection, const char *url, const char *method,
                             const char *version, const char *data, size_t *size, void **state)
{
    (void)unused, (void)url, (void)method, (void)version, (void)data, (void)size;
    /* The first call comes with the headers alone: to respond in it is to refuse a body, and closes the connection. */
    static int seen;
    if (*state == NULL) {
        *state = &seen;
        return MHD_YES;
    }
    if (strcmp(habit, "asks") == 0)
        ask();
    if (strcmp(habit, "pattern-afresh") == 0)
        match_afresh();
    if (strcmp(habit, "pattern-kept") == 0)
        is_robot(&agent);
    struct MHD_Response *response = answer();
    enum MHD_Result result = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}

int main(int count, char **values)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(values[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    habit = values[2];
    service_port = count > 3 ? atoi(values[3]) : 0;
    int threads = count > 4 ? atoi(values[4]) : 1;
    memset(body, 'x', sizeof body);
    if (regcomp(&agent, AGENT, REG_EXTENDED | REG_ICASE) != 0)
        return 1;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG;
    struct MHD_Daemon *daemon =
        threads > 1 ? MHD_start_daemon(flags, 0, NULL, NULL, serve, NULL, MHD_OPTION_SOCK_ADDR, &address,
                                       MHD_OPTION_THREAD_POOL_SIZE, threads, MHD_OPTION_END)
                    : MHD_start_daemon(flags, 0, NULL, NULL, serve, NULL, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_END);
    if (daemon == NULL)
        return 1;
    for (;;)
        pause();
}
