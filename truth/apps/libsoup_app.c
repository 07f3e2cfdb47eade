/* A server on libsoup and GLib's main loop with one habit, given by name: libsoup_app PORT HABIT. */
#include <libsoup/soup.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROWS 200
#define SESSIONS 20000
#define SESSION_LIFE_S 1800
#define SECONDS_A_DAY 86400

static char text[1024];

static void send_page(SoupServerMessage *message, GString *page)
{
    soup_server_message_set_status(message, SOUP_STATUS_OK, NULL);
    soup_server_message_set_response(message, "text/plain", SOUP_MEMORY_COPY, page->str, page->len);
    g_string_free(page, TRUE);
}

static void plain(SoupServer *server, SoupServerMessage *message, const char *path, GHashTable *query, gpointer unused)
{
    (void)server, (void)path, (void)query, (void)unused;
    send_page(message, g_string_new_len(text, sizeof text));
}

/* When each of the last valves was opened, in local time. */
static void calendar(SoupServer *server, SoupServerMessage *message, const char *path, GHashTable *query, gpointer unused)
{
    (void)server, (void)path, (void)query, (void)unused;
    GString *page = g_string_new(NULL);
    for (int n = 0; n < ROWS; n++) {
        time_t opened = 1700000000 + (time_t)n * SECONDS_A_DAY;
        char when[64];
        strftime(when, sizeof when, "%Y-%m-%d %H:%M", localtime(&opened));
        g_string_append_printf(page, "%s valve %d\n", when, n);
    }
    send_page(message, page);
}

/* ---- sessions that end after half an hour ---- */

static gint64 ends[SESSIONS];

static gboolean end_session(gpointer session)
{
    *(gint64 *)session = 0;
    return G_SOURCE_REMOVE;
}

static gboolean end_old_sessions(gpointer unused)
{
    (void)unused;
    for (int n = 0; n < SESSIONS; n++)
        if (ends[n] != 0 && ends[n] < g_get_monotonic_time())
            ends[n] = 0;
    return G_SOURCE_CONTINUE;
}

static void open_sessions(gboolean timer_of_each)
{
    for (int n = 0; n < SESSIONS; n++) {
        ends[n] = g_get_monotonic_time() + SESSION_LIFE_S * G_USEC_PER_SEC;
        if (timer_of_each)
            g_timeout_add_seconds(SESSION_LIFE_S, end_session, &ends[n]);
    }
    if (!timer_of_each)
        g_timeout_add_seconds(1, end_old_sessions, NULL);
}

int main(int count, char **values)
{
    const char *habit = count > 2 ? values[2] : "";
    GError *error = NULL;
    signal(SIGPIPE, SIG_IGN);
    memset(text, 'x', sizeof text);
    SoupServer *server = soup_server_new(NULL, NULL);
    soup_server_add_handler(server, "/", g_str_equal(habit, "calendar") ? calendar : plain, NULL, NULL);
    if (g_str_has_prefix(habit, "sessions"))
        open_sessions(g_str_equal(habit, "sessions-with-timers"));
    if (!soup_server_listen_local(server, atoi(values[1]), SOUP_SERVER_LISTEN_IPV4_ONLY, &error)) {
        g_printerr("%s\n", error->message);
        return 1;
    }
    g_main_loop_run(g_main_loop_new(NULL, FALSE));
}
