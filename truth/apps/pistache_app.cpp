// A server on Pistache with one habit, given by name: PORT THREADS HABIT [SERVICE_PORT].
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pistache/endpoint.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <unordered_map>

using namespace Pistache;
using Page = void (*)(Http::ResponseWriter &);

static const std::string text(1024, 'x');
static std::uint16_t service_port;

// ---- a service that is asked, by a connection for each thread ----

static int connected()
{
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(service_port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int service = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(service, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(service, reinterpret_cast<sockaddr *>(&where), sizeof where) != 0)
        throw std::runtime_error("no service");
    return service;
}

static std::string ask_service()
{
    static thread_local const int service = connected();
    static const std::string question = "GET / HTTP/1.1\r\nHost: service\r\n\r\n";
    std::string got;
    char part[8192];
    if (write(service, question.data(), question.size()) < 0)
        throw std::runtime_error("the service is gone");
    for (;;) {
        const ssize_t more = read(service, part, sizeof part);
        if (more <= 0)
            throw std::runtime_error("the service is gone");
        got.append(part, static_cast<std::size_t>(more));
        const auto head = got.find("\r\n\r\n");
        if (head != std::string::npos && got.size() - head - 4 >= text.size())
            return got.substr(head + 4);
    }
}

static void price(Http::ResponseWriter &response) { response.send(Http::Code::Ok, ask_service()); }

// ---- a list that is sent as it is made, in chunks ----

static std::string row(int n) { return "valve " + std::to_string(n) + " is open and its pressure is " + std::to_string(n * 7); }

template <bool flushes> static void list(Http::ResponseWriter &response)
{
    auto stream = response.stream(Http::Code::Ok);
    for (int n = 0; n < 60; n++) {
        stream << row(n).c_str();
        if (flushes)
            stream << Http::flush;
    }
    stream << Http::ends;
}

// ---- places of customers on a map of a town, by their place in it ----

struct Place {
    int x, y;
    bool operator==(const Place &other) const { return x == other.x && y == other.y; }
};

// The same for all places on a diagonal, and there are few diagonals.
struct Sum {
    std::size_t operator()(const Place &place) const { return static_cast<std::size_t>(place.x + place.y); }
};

struct Mixed {
    std::size_t operator()(const Place &place) const
    {
        const auto both = static_cast<std::uint64_t>(place.x) << 32 | static_cast<std::uint32_t>(place.y);
        return static_cast<std::size_t>((both * 0x9e3779b97f4a7c15u) >> 20);
    }
};

constexpr int side = 200;

template <typename Hash> static std::unordered_map<Place, int, Hash> town()
{
    std::unordered_map<Place, int, Hash> customers;
    for (int x = 0; x < side; x++)
        for (int y = 0; y < side; y++)
            customers[{x, y}] = x * y;
    return customers;
}

template <typename Hash> static void tour(Http::ResponseWriter &response)
{
    static const auto customers = town<Hash>();
    long sum = 0;
    for (int n = 0; n < 150; n++)
        sum += customers.at({n, side - 1 - n});
    response.send(Http::Code::Ok, "the tour is worth " + std::to_string(sum));
}

static void plain(Http::ResponseWriter &response) { response.send(Http::Code::Ok, text); }

static const std::map<std::string, Page> habits = {
    {"plain", plain},
    {"price", price},
    {"list-flushed", list<true>},
    {"list", list<false>},
    {"tour-by-sum", tour<Sum>},
    {"tour", tour<Mixed>},
};

static Page page;

struct Shop : Http::Handler {
    HTTP_PROTOTYPE(Shop)
    void onRequest(const Http::Request &, Http::ResponseWriter response) override { page(response); }
};

int main(int count, char **values)
{
    page = habits.at(values[3]);
    service_port = static_cast<std::uint16_t>(count > 4 ? std::stoi(values[4]) : 0);
    Http::Endpoint server(Address(std::string("127.0.0.1:") + values[1]));
    server.init(Http::Endpoint::options().threads(std::stoi(values[2])).flags(
        Flags<Tcp::Options>(Tcp::Options::ReuseAddr) | Tcp::Options::NoDelay));
    server.setHandler(Http::make_handler<Shop>());
    server.serve();
}
