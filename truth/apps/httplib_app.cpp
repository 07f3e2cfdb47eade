// A server on cpp-httplib with a thread for each connection of the load and one habit, given by name: PORT HABIT [SERVICE_PORT].
#include <chrono>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>

#include <httplib.h>

using Page = std::function<std::string()>;

static const std::string text(1024, 'x');
static const int threads = 64, carts_kept = 200'000;
static int service_port;

// ---- a service that is asked ----

static std::string ask(httplib::Client &service)
{
    const auto answer = service.Get("/");
    return answer ? answer->body : "";
}

static void keep_open(httplib::Client &service)
{
    service.set_keep_alive(true);
    service.set_tcp_nodelay(true);
}

struct Caller : httplib::Client {
    Caller() : httplib::Client("127.0.0.1", service_port) { keep_open(*this); }
};

// A client does one request at a time: whoever comes meanwhile waits for it.
static std::string ask_with_one_client()
{
    static Caller service;
    return ask(service);
}

static std::string ask_with_own_client()
{
    static thread_local Caller service;
    return ask(service);
}

// ---- carts that are saved now and then ----

struct Cart {
    std::string user;
    int valves[8] = {};
};

static std::shared_mutex gate;
static std::map<int, Cart> carts;

static std::string cart()
{
    static thread_local int asked = 0;
    const std::shared_lock held(gate);
    const Cart &one = carts.at(asked++ * 7919 % carts_kept);
    return one.user + " has " + std::to_string(one.valves[0]) + " valves";
}

template <typename Lock> static void save_now_and_then()
{
    for (;;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(700));
        const Lock held(gate);
        std::ofstream file("carts.txt");
        for (const auto &[id, one] : carts) {
            file << id << ' ' << one.user;
            for (int valves : one.valves)
                file << ' ' << valves;
            file << '\n';
        }
    }
}

template <typename Lock> static Page saved_cart()
{
    for (int id = 0; id < carts_kept; id++)
        carts[id].user = "user " + std::to_string(id);
    std::thread(save_now_and_then<Lock>).detach();
    return cart;
}

static const std::map<std::string, std::function<Page()>> habits = {
    {"plain", [] { return [] { return text; }; }},
    {"default-delay", [] { return [] { return text; }; }},
    {"one-request", [] { return [] { return text; }; }},
    {"one-client", [] { return ask_with_one_client; }},
    {"own-client", [] { return ask_with_own_client; }},
    {"saved-alone", saved_cart<std::unique_lock<std::shared_mutex>>},
    {"saved-as-a-reader", saved_cart<std::shared_lock<std::shared_mutex>>},
};

int main(int count, char **values)
{
    const std::string habit = values[2];
    service_port = count > 3 ? std::stoi(values[3]) : 0;
    const Page page = habits.at(habit)();
    httplib::Server server;
    server.new_task_queue = [] { return new httplib::ThreadPool(threads); };
    // Off, unless somebody says otherwise; head and body are sent apart.
    server.set_tcp_nodelay(habit != "default-delay");
    // Five, unless somebody says otherwise; one keeps idle connections from holding the threads.
    server.set_keep_alive_max_count(habit == "one-request" ? 1 : 1'000'000);
    server.Get("/", [&page](const httplib::Request &, httplib::Response &response) {
        const std::string body = page();
        response.status = body.empty() ? 502 : 200;
        response.set_content(body, "text/plain");
    });
    return server.listen("127.0.0.1", std::stoi(values[1])) ? 0 : 1;
}
