// A server on POCO with a thread for each connection of the load and one habit, given by name: PORT HABIT.
#include <algorithm>
#include <atomic>
#include <ctime>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <Poco/Event.h>
#include <Poco/File.h>
#include <Poco/JSON/Array.h>
#include <Poco/JSON/Object.h>
#include <Poco/JSON/Parser.h>
#include <Poco/NotificationQueue.h>
#include <Poco/Net/HTTPRequestHandler.h>
#include <Poco/Net/HTTPRequestHandlerFactory.h>
#include <Poco/Net/HTTPServer.h>
#include <Poco/Net/HTTPServerParams.h>
#include <Poco/Net/HTTPServerRequest.h>
#include <Poco/Net/HTTPServerResponse.h>
#include <Poco/Thread.h>
#include <Poco/ThreadPool.h>
#include <Poco/Timestamp.h>

using Page = std::function<std::string()>;

static const std::string text(1024, 'x');
static const int threads = 64, queued = 64, valves = 60, parts = 40, check_ms = 10, quote_length = 1024;

// ---- prices, which a thread of their own works out ----

struct Quote : Poco::Notification {
    std::string text;
    std::atomic<bool> ready = false;
    Poco::Event done;
};

static Poco::NotificationQueue asked;

struct Pricing : Poco::Runnable {
    void run() override
    {
        for (;;) {
            Poco::AutoPtr<Poco::Notification> next(asked.waitDequeueNotification());
            auto quote = next.cast<Quote>();
            quote->text.assign(quote_length, 'q');
            quote->ready = true;
            quote->done.set();
        }
    }
};

static Poco::AutoPtr<Quote> ask_for_quote()
{
    Poco::AutoPtr<Quote> quote(new Quote);
    asked.enqueueNotification(quote);
    return quote;
}

static std::string look_until_ready()
{
    auto quote = ask_for_quote();
    while (!quote->ready)
        Poco::Thread::sleep(check_ms);
    return quote->text;
}

static std::string wait_until_ready()
{
    auto quote = ask_for_quote();
    quote->done.wait();
    return quote->text;
}

static Page priced(Page quote)
{
    static Poco::Thread thread;
    static Pricing pricing;
    thread.start(pricing);
    return quote;
}

// ---- a catalogue, of which a request wants one entry ----

static std::string catalogue_text()
{
    Poco::JSON::Array all;
    for (int n = 0; n < valves; n++) {
        Poco::JSON::Object one;
        one.set("id", n);
        one.set("name", "valve " + std::to_string(n));
        one.set("note", "open and shut");
        all.add(one);
    }
    std::ostringstream out;
    all.stringify(out);
    return out.str();
}

static Poco::JSON::Array::Ptr parsed(const std::string &from)
{
    Poco::JSON::Parser parser;
    return parser.parse(from).extract<Poco::JSON::Array::Ptr>();
}

static std::string name_in(const Poco::JSON::Array &catalogue)
{
    return catalogue.getObject(7)->getValue<std::string>("name");
}

static Page parsed_each_time()
{
    return [from = catalogue_text()] { return name_in(*parsed(from)); };
}

static Page parsed_once()
{
    return [catalogue = parsed(catalogue_text())] { return name_in(*catalogue); };
}

// ---- a page of parts, which their authors may change ----

struct Part {
    Poco::File file;
    Poco::Timestamp changed;
    std::string text;
};

static std::vector<Part> all_parts()
{
    std::vector<Part> found;
    for (int n = 0; n < parts; n++) {
        const std::string name = "part-" + std::to_string(n) + ".html";
        std::ofstream(name) << "<p>part " << n << "</p>\n";
        const Poco::File file(name);
        found.push_back({file, file.getLastModified(), "<p>part " + std::to_string(n) + "</p>\n"});
    }
    return found;
}

static bool none_has_changed(const std::vector<Part> &of_page)
{
    return std::all_of(of_page.begin(), of_page.end(),
                       [](const Part &part) { return part.file.getLastModified() == part.changed; });
}

static std::string page_of(const std::vector<Part> &of_page)
{
    std::string whole;
    for (const Part &part : of_page)
        whole += part.text;
    return whole;
}

static Page looked_at_each_time()
{
    return [of_page = all_parts()] { return none_has_changed(of_page) ? page_of(of_page) : ""; };
}

static Page looked_at_each_second()
{
    static std::atomic<std::time_t> looked_at = 0;
    return [of_page = all_parts()] {
        const std::time_t now = std::time(nullptr);
        const bool is_fresh = looked_at.exchange(now) == now;
        return is_fresh || none_has_changed(of_page) ? page_of(of_page) : "";
    };
}

static const std::map<std::string, std::function<Page()>> habits = {
    {"plain", [] { return [] { return text; }; }},
    {"looks-until-ready", [] { return priced(look_until_ready); }},
    {"waits-until-ready", [] { return priced(wait_until_ready); }},
    {"parsed-each-time", parsed_each_time},
    {"parsed-once", parsed_once},
    {"looked-at-each-time", looked_at_each_time},
    {"looked-at-each-second", looked_at_each_second},
};

struct Answer : Poco::Net::HTTPRequestHandler {
    const Page &page;

    explicit Answer(const Page &page) : page(page) {}

    void handleRequest(Poco::Net::HTTPServerRequest &, Poco::Net::HTTPServerResponse &response) override
    {
        const std::string body = page();
        response.setContentType("text/plain");
        response.sendBuffer(body.data(), body.size());
    }
};

struct Answers : Poco::Net::HTTPRequestHandlerFactory {
    const Page &page;

    explicit Answers(const Page &page) : page(page) {}

    Poco::Net::HTTPRequestHandler *createRequestHandler(const Poco::Net::HTTPServerRequest &) override
    {
        return new Answer(page);
    }
};

int main(int, char **values)
{
    const Page page = habits.at(values[2])();
    const Poco::Net::SocketAddress where("127.0.0.1", static_cast<Poco::UInt16>(std::stoi(values[1])));
    Poco::Net::HTTPServerParams::Ptr settings(new Poco::Net::HTTPServerParams);
    settings->setMaxThreads(threads);
    settings->setMaxQueued(queued);
    Poco::ThreadPool pool(2, threads);
    Poco::Net::HTTPServer server(new Answers(page), pool, Poco::Net::ServerSocket(where), settings);
    server.start();
    Poco::Event().wait();
    return 0;
}
