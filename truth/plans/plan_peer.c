// A peer to wait for: it answers every 8 bytes after a constant delay with the time at which it does (8 bytes, ns of the
// monotonic clock). Started as: plan_peer PORT DELAY_US.
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WAITING = 1 << 14 };
static struct { int fd; uint64_t due; } waiting[WAITING];
static uint64_t first, behind_last;

static uint64_t wall(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// Answers whoever is due; the delay is the same for all, so they are due in the order in which they came.
static void answer_due(void) {
    while (first < behind_last && waiting[first % WAITING].due <= wall()) {
        uint64_t stamp = wall();
        if (send(waiting[first++ % WAITING].fd, &stamp, 8, MSG_NOSIGNAL) < 0) continue;
    }
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    uint64_t delay = atol(arguments[2]) * 1000;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1, loop = epoll_create1(0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1])),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 4096)) {
        perror("listen");
        return 1;
    }
    struct epoll_event event = {EPOLLIN, {.fd = listener}}, events[256];
    epoll_ctl(loop, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        struct timespec left, *timeout = NULL;
        if (first < behind_last) {
            int64_t ns = (int64_t)(waiting[first % WAITING].due - wall());
            if (ns < 0) ns = 0;
            left = (struct timespec){ns / 1000000000, ns % 1000000000};
            timeout = &left;
        }
        int ready = epoll_pwait2(loop, events, 256, timeout, NULL);
        answer_due();
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                if (client < 0) continue;
                setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                event = (struct epoll_event){EPOLLIN, {.fd = client}};
                epoll_ctl(loop, EPOLL_CTL_ADD, client, &event);
                continue;
            }
            uint64_t messages[64];
            ssize_t got = read(fd, messages, sizeof messages);
            if (got <= 0) close(fd);
            for (ssize_t at_byte = 0; at_byte < got; at_byte += 8) {
                waiting[behind_last % WAITING].fd = fd;
                waiting[behind_last++ % WAITING].due = wall() + delay;
            }
        }
        answer_due();
    }
}
