// Orders of a plant in RocksDB within a server of RESTinio: restinio_app PORT HABIT STORE [THREADS] [SUPPLIER_PORT].
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include <restinio/all.hpp>
#include <rocksdb/db.h>

namespace {

constexpr int ORDERS = 20'000, DONE = 20'000, WAITING = 200, SMALL_BUFFER = 64 << 10;
const std::string PROTOCOL(2000, 'p');

void must(const rocksdb::Status& status) {
    if (!status.ok()) throw std::runtime_error(status.ToString());
}

std::string key(const char* kind, long number) {
    char text[32];
    std::snprintf(text, sizeof text, "%s/%010ld", kind, number);
    return text;
}

// A connection to the supplier that stays, one for each thread.
class Supplier {
    int at = -1;

public:
    explicit Supplier(int port) : at(socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in where{};
        where.sin_family = AF_INET;
        where.sin_port = htons(port);
        where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (connect(at, reinterpret_cast<sockaddr*>(&where), sizeof where) != 0) {
            throw std::runtime_error("no supplier");
        }
    }
    ~Supplier() { close(at); }

    std::string price(const std::string& of) {
        const std::string question = "GET /" + of + " HTTP/1.1\r\nHost: supplier\r\n\r\n";
        if (write(at, question.data(), question.size()) < 0) throw std::runtime_error("the supplier is gone");
        char answer[1024];
        const auto length = read(at, answer, sizeof answer);
        if (length <= 0) throw std::runtime_error("the supplier is gone");
        return {answer, static_cast<std::size_t>(length)};
    }
};

class Plant {
    std::unique_ptr<rocksdb::DB> store;
    std::atomic<long> turns{0};
    std::mutex taking;
    long last_job = 0;
    std::string mark = key("job", 0);
    int supplier;

public:
    Plant(const std::string& where, const std::string& habit, int supplier_port) : supplier(supplier_port) {
        rocksdb::Options options;
        options.create_if_missing = true;
        if (habit == "visit-small") options.write_buffer_size = SMALL_BUFFER;
        rocksdb::DB* opened = nullptr;
        must(rocksdb::DB::Open(options, where, &opened));
        store.reset(opened);
        for (long n = 0; n < ORDERS; ++n) put(key("order", n), "a seal for valve " + std::to_string(n));
        if (habit.rfind("job", 0) == 0) done_and_waiting();
    }

    void put(const std::string& name, const std::string& value) { must(store->Put({}, name, value)); }

    // Jobs as they are after a morning: most are done, which means deleted.
    void done_and_waiting() {
        for (; last_job < DONE + WAITING; ++last_job) put(key("job", last_job), "fit a seal");
        for (long n = 0; n < DONE; ++n) must(store->Delete({}, key("job", n)));
    }

    std::string order() {
        std::string value;
        must(store->Get({}, key("order", turns++ * 7 % ORDERS), &value));
        return value + "\n";
    }

    // The first job that waits is done, and another comes; it is looked for from the first of all, or from the mark.
    std::string job(bool from_mark) {
        const std::lock_guard one(taking);
        std::unique_ptr<rocksdb::Iterator> jobs(store->NewIterator({}));
        jobs->Seek(from_mark ? mark : key("job", 0));
        if (!jobs->Valid()) throw std::runtime_error("no job waits");
        mark = jobs->key().ToString();
        const auto what = jobs->value().ToString();
        must(store->Delete({}, mark));
        put(key("job", last_job++), "fit a seal");
        return mark + ": " + what + "\n";
    }

    std::string visit() {
        const auto turn = turns++;
        put(key("visit", turn * 7919 % 1'000'003), PROTOCOL);
        return "visit " + std::to_string(turn) + " is written down\n";
    }

    std::string price() {
        thread_local Supplier asked(supplier);
        return asked.price(key("seal", turns++)).substr(0, 15) + "\n";
    }

    std::string page(const std::string& habit) {
        if (habit == "job") return job(false);
        if (habit == "job-from-mark") return job(true);
        if (habit == "price") return price();
        return habit.rfind("visit", 0) == 0 ? visit() : order();
    }
};

}  // namespace

int main(int count, char** said) {
    const std::string habit = said[2];
    Plant plant(said[3], habit, count > 5 ? std::stoi(said[5]) : 0);
    restinio::run(restinio::on_thread_pool<restinio::default_traits_t>(count > 4 ? std::stoi(said[4]) : 4)
        .address("127.0.0.1")
        .port(static_cast<std::uint16_t>(std::stoi(said[1])))
        .request_handler([&](const restinio::request_handle_t& request) {
            auto response = request->create_response();
            return response.append_header("Content-Type", "text/plain").set_body(plant.page(habit)).done();
        }));
}
