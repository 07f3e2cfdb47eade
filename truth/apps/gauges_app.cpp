// A server of somebody's own for the gauges of a plant: a loop on epoll reads requests, sixteen workers answer them.
// gauges_app PORT PAGE HOW [SERVICE_PORT]: which page it has, and how one thing is done in it.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kWorkers = 16;
constexpr auto kIdleLimit = std::chrono::seconds(30);
constexpr size_t kGauges = 100'000, kSamples = 512, kTouched = 48;
constexpr auto kSaveEvery = std::chrono::milliseconds(250);

[[noreturn]] void give_up(const char* what) {
    perror(what);
    exit(1);
}

// ---- jobs that are worked on by threads ----

class Pool {
public:
    explicit Pool(bool wake_for_each) : wake_for_each_(wake_for_each) {
        for (int n = 0; n < kWorkers; n++) std::thread([this] { run(); }).detach();
    }

    void add(std::function<void()> job) {
        bool was_empty;
        {
            std::lock_guard<std::mutex> guard(mutex_);
            was_empty = jobs_.empty();
            jobs_.push_back(std::move(job));
        }
        if (was_empty || wake_for_each_) some_.notify_one();
    }

private:
    void run() {
        for (;;) {
            std::unique_lock<std::mutex> lock(mutex_);
            some_.wait(lock, [this] { return !jobs_.empty(); });
            auto job = std::move(jobs_.front());
            jobs_.pop_front();
            lock.unlock();
            job();
        }
    }

    const bool wake_for_each_;
    std::mutex mutex_;
    std::condition_variable some_;
    std::deque<std::function<void()>> jobs_;
};

// ---- connections that have been quiet for too long ----

class Quiet {
public:
    explicit Quiet(bool from_the_front) : from_the_front_(from_the_front) {}

    // What was noted for a connection before stays until it is due, and is then found to be out of date.
    void heard_of(int fd) {
        auto due = Clock::now() + kIdleLimit;
        latest_[fd] = due;
        auto place = waiting_.end();
        if (from_the_front_) {
            place = waiting_.begin();
            while (place != waiting_.end() && place->due <= due) ++place;
        } else {
            while (place != waiting_.begin() && std::prev(place)->due > due) --place;
        }
        waiting_.insert(place, {due, fd});
    }

    void close_those_due() {
        for (auto now = Clock::now(); !waiting_.empty() && waiting_.front().due <= now; waiting_.pop_front()) {
            auto found = latest_.find(waiting_.front().fd);
            if (found != latest_.end() && found->second == waiting_.front().due) {
                shutdown(found->first, SHUT_RDWR);
                latest_.erase(found);
            }
        }
    }

private:
    struct Entry {
        Clock::time_point due;
        int fd;
    };
    const bool from_the_front_;
    std::list<Entry> waiting_;
    std::map<int, Clock::time_point> latest_;
};

// ---- what gauges have told: their latest samples, 200 MB of them ----

class Store {
public:
    Store() : samples_(kGauges * kSamples, 1), latest_(kGauges, 1) {}

    // Each reading is of one device with some gauges on it, which were built in here and there.
    std::string take(std::minstd_rand& chance) {
        int sum = 0;
        for (size_t n = 0; n < kTouched; n++) {
            size_t gauge = chance() % kGauges;
            samples_[gauge * kSamples + chance() % kSamples] += 1;
            sum += latest_[gauge] += 1;
        }
        return "gauges " + std::to_string(sum) + "\n";
    }

    void save() const {
        std::ofstream file("latest.new", std::ios::binary);
        file.write(reinterpret_cast<const char*>(latest_.data()), latest_.size() * sizeof(latest_[0]));
        file.close();
        rename("latest.new", "latest");
    }

    // A copy of this process sees all gauges as they are at one moment.
    void save_as_of_now() const {
        pid_t child = fork();
        if (child == 0) {
            save();
            _exit(0);
        }
        while (waitpid(-1, nullptr, WNOHANG) > 0) {
        }
    }

private:
    std::vector<int> samples_, latest_;
};

// ---- a service that knows prices ----

std::string ask(int port) {
    static thread_local int fd = -1;
    if (fd < 0) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in where{};
        where.sin_family = AF_INET;
        where.sin_port = htons(port);
        where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (connect(fd, reinterpret_cast<sockaddr*>(&where), sizeof where) != 0) give_up("connect");
    }
    const std::string question = "GET /bytes/64 HTTP/1.1\r\nHost: prices\r\n\r\n";
    if (write(fd, question.data(), question.size()) < 0) give_up("write");
    std::string answer;
    for (char buffer[4096];;) {
        ssize_t got = read(fd, buffer, sizeof buffer);
        if (got <= 0) give_up("read");
        answer.append(buffer, got);
        size_t head = answer.find("\r\n\r\n");
        if (head != std::string::npos && answer.size() >= head + 4 + 64) return answer.substr(head + 4);
    }
}

// ---- the loop ----

void answer(int fd, const std::string& body) {
    std::string text = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " + std::to_string(body.size()) +
                       "\r\n\r\n" + body;
    if (write(fd, text.data(), text.size()) < 0) shutdown(fd, SHUT_RDWR);
}

void watch(int epoll, int operation, int fd) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLONESHOT;
    event.data.fd = fd;
    epoll_ctl(epoll, operation, fd, &event);
}

int listen_at(int port) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, reinterpret_cast<sockaddr*>(&where), sizeof where) != 0 || listen(fd, 511) != 0) give_up("listen");
    return fd;
}

// False when the connection is over. Requests are small, and none is sent before the one before it is answered.
bool read_request(int fd) {
    std::string head;
    char buffer[4096];
    while (head.find("\r\n\r\n") == std::string::npos) {
        ssize_t got = read(fd, buffer, sizeof buffer);
        if (got <= 0) return false;
        head.append(buffer, got);
    }
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4) return 2;
    const std::string page = argv[2], how = argv[3];
    const int service = argc > 4 ? atoi(argv[4]) : 0;
    Store store;
    Quiet quiet(how == "from-the-front");
    Pool pool(how != "for-the-first");
    auto made = [&]() -> std::string {
        static thread_local std::minstd_rand chance(std::hash<std::thread::id>()(std::this_thread::get_id()));
        if (page == "price") return ask(service);
        if (page == "device") return store.take(chance);
        return "gauge " + std::to_string(chance() % kGauges) + "\n";
    };
    int listener = listen_at(atoi(argv[1])), epoll = epoll_create1(0), yes = 1;
    watch(epoll, EPOLL_CTL_ADD, listener);
    auto saved = Clock::now();
    for (epoll_event events[64];;) {
        int count = epoll_wait(epoll, events, 64, 100);
        for (int n = 0; n < count; n++) {
            int fd = events[n].data.fd;
            if (fd == listener) {
                int client = accept(listener, nullptr, nullptr);
                setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
                watch(epoll, EPOLL_CTL_ADD, client);
                watch(epoll, EPOLL_CTL_MOD, listener);
                continue;
            }
            if (!read_request(fd)) {
                close(fd);
                continue;
            }
            quiet.heard_of(fd);
            pool.add([&made, fd, epoll] {
                answer(fd, made());
                watch(epoll, EPOLL_CTL_MOD, fd);
            });
        }
        quiet.close_those_due();
        if (page == "device" && Clock::now() - saved > kSaveEvery) {
            saved = Clock::now();
            if (how == "as-of-now") store.save_as_of_now(); else store.save();
        }
    }
}
