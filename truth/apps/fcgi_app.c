/* A FastCGI program: fcgi_app PORT PROCESSES WAIT_US. Each process takes a connection, and keeps to it until it is closed. */
#include <fcgiapp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void serve(int listener, int wait_us)
{
    char body[1025];
    FCGX_Request request;
    memset(body, 'x', 1024);
    body[1024] = 0;
    FCGX_InitRequest(&request, listener, 0);
    while (FCGX_Accept_r(&request) == 0) {
        if (wait_us > 0)
            usleep(wait_us);
        FCGX_FPrintF(request.out, "Content-Type: text/plain\r\nContent-Length: 1024\r\n\r\n%s", body);
        FCGX_Finish_r(&request);
    }
}

int main(int count, char **values)
{
    char where[32];
    if (count < 4)
        return 2;
    snprintf(where, sizeof where, "127.0.0.1:%s", values[1]);
    FCGX_Init();
    int listener = FCGX_OpenSocket(where, 128);
    for (int process = 0; process < atoi(values[2]); process++) {
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            serve(listener, atoi(values[3]));
            return 0;
        }
    }
    for (;;)
        pause();
}
