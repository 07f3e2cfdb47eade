/* A REST service on Ulfius with one habit, given by name: ulfius_app PORT HABIT [SERVICE_PORT | FILE]. */
#include <curl/curl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ulfius.h>
#include <unistd.h>
#include <yder.h>

#define HALLS 12
#define VALVES 400
#define KEPT 60000

static const char *service, *list_path;
static json_t *list;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;

static int plain(const struct _u_request *request, struct _u_response *response, void *data)
{
    (void)data;
    json_t *answer = json_pack("{ss, ss, sb}", "valve", u_map_get(request->map_url, "valve"), "hall", "north", "open", 1);
    ulfius_set_json_body_response(response, 200, answer);
    json_decref(answer);
    return U_CALLBACK_CONTINUE;
}

/* What a meter shows, by the client that Ulfius brings. */
static int meter(const struct _u_request *request, struct _u_response *response, void *data)
{
    struct _u_request question;
    struct _u_response shown;
    char url[64];
    (void)request, (void)data;
    snprintf(url, sizeof url, "http://127.0.0.1:%s/bytes/64", service);
    ulfius_init_request(&question);
    ulfius_init_response(&shown);
    ulfius_set_request_properties(&question, U_OPT_HTTP_VERB, "GET", U_OPT_HTTP_URL, url, U_OPT_NONE);
    if (ulfius_send_http_request(&question, &shown) == U_OK)
        ulfius_set_binary_body_response(response, 200, shown.binary_body, shown.binary_body_length);
    else
        ulfius_set_string_body_response(response, 502, "no meter");
    ulfius_clean_response(&shown);
    ulfius_clean_request(&question);
    return U_CALLBACK_CONTINUE;
}

static size_t keep(char *bytes, size_t size, size_t count, void *into)
{
    strncat(into, bytes, size * count);
    return size * count;
}

/* The same by a handle of curl that the thread keeps. */
static int meter_kept(const struct _u_request *request, struct _u_response *response, void *data)
{
    static __thread CURL *kept;
    char url[64], shown[256] = "";
    (void)request, (void)data;
    snprintf(url, sizeof url, "http://127.0.0.1:%s/bytes/64", service);
    if (!kept) {
        kept = curl_easy_init();
        curl_easy_setopt(kept, CURLOPT_URL, url);
        curl_easy_setopt(kept, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(kept, CURLOPT_WRITEFUNCTION, keep);
    }
    curl_easy_setopt(kept, CURLOPT_WRITEDATA, shown);
    if (curl_easy_perform(kept) == CURLE_OK)
        ulfius_set_string_body_response(response, 200, shown);
    else
        ulfius_set_string_body_response(response, 502, "no meter");
    return U_CALLBACK_CONTINUE;
}

static json_t *list_of_valves(void)
{
    json_t *valves = json_array();
    for (int n = 0; n < VALVES; n++)
        json_array_append_new(valves, json_pack("{si, si, sb}", "id", n, "hall", n % HALLS, "open", n % 3 == 0));
    return valves;
}

static json_t *open_in_hall(json_t *valves, int hall)
{
    json_t *found = json_array(), *valve;
    size_t at;
    json_array_foreach(valves, at, valve)
        if (json_integer_value(json_object_get(valve, "hall")) == hall && json_is_true(json_object_get(valve, "open")))
            json_array_append(found, valve);
    return found;
}

/* Every request works on a copy of its own, lest another thread changes the list meanwhile. */
static int hall_of_copy(const struct _u_request *request, struct _u_response *response, void *data)
{
    (void)request, (void)data;
    pthread_mutex_lock(&list_lock);
    json_t *mine = json_deep_copy(list);
    pthread_mutex_unlock(&list_lock);
    json_t *found = open_in_hall(mine, 3);
    ulfius_set_json_body_response(response, 200, found);
    json_decref(found);
    json_decref(mine);
    return U_CALLBACK_CONTINUE;
}

static int hall_of_list(const struct _u_request *request, struct _u_response *response, void *data)
{
    (void)request, (void)data;
    pthread_mutex_lock(&list_lock);
    json_t *found = open_in_hall(list, 3);
    ulfius_set_json_body_response(response, 200, found);
    json_decref(found);
    pthread_mutex_unlock(&list_lock);
    return U_CALLBACK_CONTINUE;
}

/* Writes the list to its file, the lock being held for all of it or for a valve at a time. */
static void save(int at_once)
{
    char beside[256];
    snprintf(beside, sizeof beside, "%s.new", list_path);
    FILE *file = fopen(beside, "w");
    if (!file)
        return;
    if (at_once)
        pthread_mutex_lock(&list_lock);
    for (size_t n = 0; n < KEPT; n++) {
        if (!at_once)
            pthread_mutex_lock(&list_lock);
        char *line = json_dumps(json_array_get(list, n), JSON_COMPACT);
        if (!at_once)
            pthread_mutex_unlock(&list_lock);
        fprintf(file, "%s\n", line);
        free(line);
    }
    if (at_once)
        pthread_mutex_unlock(&list_lock);
    fclose(file);
    rename(beside, list_path);
}

/* What requests change goes to its file each second. */
static void *keeper(void *at_once)
{
    for (;;) {
        sleep(1);
        save(at_once != NULL);
    }
    return NULL;
}

/* A valve's turns are counted. */
static int turned(const struct _u_request *request, struct _u_response *response, void *data)
{
    static unsigned next;
    (void)request, (void)data;
    pthread_mutex_lock(&list_lock);
    json_t *valve = json_array_get(list, next++ % json_array_size(list));
    json_int_t turns = json_integer_value(json_object_get(valve, "turns")) + 1;
    json_object_set_new(valve, "turns", json_integer(turns));
    pthread_mutex_unlock(&list_lock);
    json_t *answer = json_pack("{sI}", "turns", turns);
    ulfius_set_json_body_response(response, 200, answer);
    json_decref(answer);
    return U_CALLBACK_CONTINUE;
}

static void keep_on_disk(int at_once)
{
    pthread_t thread;
    for (int n = VALVES; n < KEPT; n++)
        json_array_append_new(list, json_pack("{si, si, sb}", "id", n, "hall", n % HALLS, "open", 1));
    pthread_create(&thread, NULL, keeper, at_once ? &list_lock : NULL);
}

int main(int count, char **args)
{
    static const struct { const char *name; int (*does)(const struct _u_request *, struct _u_response *, void *); } habits[] = {
        {"plain", plain}, {"meter", meter}, {"meter-kept", meter_kept}, {"hall-of-copy", hall_of_copy},
        {"hall", hall_of_list}, {"kept-under-lock", turned}, {"kept-in-pieces", turned}};
    struct _u_instance instance;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(args[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    service = list_path = count > 3 ? args[3] : "";
    y_init_logs("valves", Y_LOG_MODE_CONSOLE, Y_LOG_LEVEL_WARNING, NULL, "valves");
    curl_global_init(CURL_GLOBAL_ALL);
    list = list_of_valves();
    if (strncmp(args[2], "kept", 4) == 0)
        keep_on_disk(strcmp(args[2], "kept-under-lock") == 0);
    if (ulfius_init_instance(&instance, atoi(args[1]), &address, NULL) != U_OK)
        return 1;
    for (size_t n = 0; n < sizeof habits / sizeof *habits; n++)
        if (strcmp(habits[n].name, args[2]) == 0)
            ulfius_add_endpoint_by_val(&instance, "GET", "/valves", "/:valve", 0, habits[n].does, NULL);
    if (ulfius_start_framework(&instance) != U_OK)
        return 1;
    pause();
    return 0;
}
