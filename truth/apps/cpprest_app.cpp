// A server on the C++ REST SDK with one habit, given by name: PORT HABIT [SERVICE_PORT].
#include <array>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <regex>
#include <string>
#include <thread>
#include <unistd.h>

#include <cpprest/http_client.h>
#include <cpprest/http_listener.h>

using web::http::http_request;
using Page = std::function<pplx::task<std::string>()>;

static const std::string text(1024, 'x');
static std::string service;

static Page at_once(std::function<std::string()> made)
{
    return [made = std::move(made)] { return pplx::task_from_result(made()); };
}

// ---- the numbers of parts, which their customers write as they please ----

static const std::array<const char *, 3> forms = {
    R"(^([A-Z]{2,4})-?(\d{3,6})(?:/(\d{1,2}))?$)",
    R"(^(?:valve|pump|gauge)[ _]+no\.?[ ]*(\d+)([a-f]?)$)",
    R"(^(\d{2})[.](\d{2})[.](\d{4})[- ]([A-Z]+)$)",
};

static std::regex form_of(const char *form) { return std::regex(form); }
static const std::regex &form_of(const std::regex &form) { return form; }

template <typename Forms> static std::string number_in(const Forms &written)
{
    static const std::string number = "12.07.2024 VALVE";
    for (const auto &form : written) {
        std::smatch found;
        if (std::regex_match(number, found, form_of(form)))
            return found[1];
    }
    return "none";
}

static Page forms_kept()
{
    return at_once([kept = std::array<std::regex, 3>{std::regex(forms[0]), std::regex(forms[1]), std::regex(forms[2])}] {
        return number_in(kept);
    });
}

// ---- a price, which a service knows ----

static std::string length_of(const web::http::http_response &response)
{
    return std::to_string(response.headers().content_length());
}

static pplx::task<std::string> asked(web::http::client::http_client client)
{
    return client.request(web::http::methods::GET).then(length_of);
}

// A client's connections are its own.
static pplx::task<std::string> new_client()
{
    return asked(web::http::client::http_client(service));
}

static Page kept_client()
{
    return [client = web::http::client::http_client(service)] { return asked(client); };
}

// ---- who has asked for what, which the auditors want to read ----

struct Audit {
    int file = open("audit.log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    std::mutex lock;
};

static std::string line()
{
    return "GET / by " + std::to_string(std::hash<std::thread::id>{}(std::this_thread::get_id())) + "\n";
}

static void add(int file, const std::string &lines)
{
    if (write(file, lines.data(), lines.size()) < 0)
        std::abort();
}

static Page synced_each_time()
{
    return at_once([audit = std::make_shared<Audit>()] {
        const std::lock_guard<std::mutex> guard(audit->lock);
        add(audit->file, line());
        fdatasync(audit->file);
        return text;
    });
}

// A thread of its own syncs what all have written, ten times a second.
static Page synced_now_and_then()
{
    auto audit = std::make_shared<Audit>();
    std::thread([audit] {
        for (;;) {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            fdatasync(audit->file);
        }
    }).detach();
    return at_once([audit] {
        add(audit->file, line());
        return text;
    });
}

static const std::map<std::string, std::function<Page()>> habits = {
    {"plain", [] { return at_once([] { return text; }); }},
    {"forms-each-time", [] { return at_once([] { return number_in(forms); }); }},
    {"forms-kept", forms_kept},
    {"new-client", [] { return Page(new_client); }},
    {"kept-client", kept_client},
    {"synced-each-time", synced_each_time},
    {"synced-now-and-then", synced_now_and_then},
};

int main(int, char **arguments)
{
    service = std::string("http://127.0.0.1:") + (arguments[3] ? arguments[3] : "0");
    const Page page = habits.at(arguments[2])();
    web::http::experimental::listener::http_listener listener(std::string("http://127.0.0.1:") + arguments[1] + "/");
    listener.support(web::http::methods::GET, [&page](http_request request) {
        page().then([request](const std::string &answer) { return request.reply(web::http::status_codes::OK, answer); });
    });
    listener.open().wait();
    pause();
}
