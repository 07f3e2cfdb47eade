// A server on Boost.Beast with a thread for each connection and one habit, given by name: PORT HABIT [DATABASE_PORT].
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include <libpq-fe.h>

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Page = std::function<std::string()>;
using Prices = std::map<std::string, std::string>;

static const std::string text(1024, 'x');
static std::string database;

// ---- a list of prices that lies in memory ----

static Prices all_prices()
{
    Prices prices;
    for (int n = 0; n < 300; n++)
        prices["valve " + std::to_string(n)] = "a price of " + std::to_string(n) + " with a note that is not short";
    return prices;
}

static const Prices prices = all_prices();

// By value: the whole list is copied for the one who looks up a price.
static std::string price_in_copy(Prices list, const std::string &name) { return list[name]; }

static std::string price_in_place(const Prices &list, const std::string &name) { return list.at(name); }

// ---- lines of a journal ----

template <typename End> static std::string journal(End end)
{
    static thread_local std::ofstream lines("journal.log", std::ios::trunc);
    lines.seekp(0);
    for (int n = 0; n < 40; n++)
        lines << "valve " << n << " is open and its pressure is " << n * 7 << end;
    return text;
}

// ---- a report that the database has little to do for ----

static const char *const report =
    "select a.name, b.note from valves a join valves b on b.id = a.id + 1 join valves c on c.id = b.id + 1"
    " join valves d on d.id = c.id + 1 join valves e on e.id = d.id + 1 join valves f on f.id = e.id + 1"
    " join valves g on g.id = f.id + 1 join valves h on h.id = g.id + 1 where a.id = $1";

struct Connection {
    PGconn *link = PQconnectdb(("host=127.0.0.1 user=truth dbname=postgres port=" + database).c_str());
    Connection() { PQclear(PQprepare(link, "report", report, 1, nullptr)); }
    ~Connection() { PQfinish(link); }
};

static std::string first_name(bool prepared)
{
    static thread_local Connection connection;
    const char *id = "7";
    PGresult *rows = prepared ? PQexecPrepared(connection.link, "report", 1, &id, nullptr, nullptr, 0)
                              : PQexecParams(connection.link, report, 1, nullptr, &id, nullptr, nullptr, 0);
    std::string name = PQntuples(rows) ? PQgetvalue(rows, 0, 0) : "";
    PQclear(rows);
    return name;
}

static const std::map<std::string, Page> habits = {
    {"plain", [] { return text; }},
    {"price-in-copy", [] { return price_in_copy(prices, "valve 7"); }},
    {"price-in-place", [] { return price_in_place(prices, "valve 7"); }},
    {"journal-endl", [] { return journal(static_cast<std::ostream &(*)(std::ostream &)>(std::endl)); }},
    {"journal", [] { return journal('\n'); }},
    {"planned", [] { return first_name(false); }},
    {"prepared", [] { return first_name(true); }},
};

static void serve(asio::ip::tcp::socket socket, Page page)
{
    boost::beast::flat_buffer buffer;
    boost::system::error_code failed;
    socket.set_option(asio::ip::tcp::no_delay(true));
    while (!failed) {
        http::request<http::string_body> request;
        http::read(socket, buffer, request, failed);
        if (failed)
            return;
        http::response<http::string_body> response(http::status::ok, request.version());
        response.keep_alive(request.keep_alive());
        response.body() = page();
        if (response.body().empty())
            response.result(http::status::bad_gateway);
        response.prepare_payload();
        http::write(socket, response, failed);
        if (!response.keep_alive())
            return;
    }
}

int main(int count, char **values)
{
    const Page page = habits.at(values[2]);
    database = count > 3 ? values[3] : "";
    asio::io_context context;
    const auto port = static_cast<unsigned short>(std::stoi(values[1]));
    asio::ip::tcp::acceptor door(context, {asio::ip::make_address("127.0.0.1"), port});
    for (;;)
        std::thread(serve, door.accept(), page).detach();
}
