// A small Go server with one habit, given by name: server PORT HABIT [ARGUMENT].
package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

var (
	body    = []byte(strings.Repeat("x", 1024))
	large   = []byte(strings.Repeat("x", 256<<10))
	lock    sync.Mutex
	records = strings.Repeat(`{"id":1,"name":"valve","readings":[1,2,3,4,5,6,7,8,9]},`, 200) + `{"id":2}`
	pattern = regexp.MustCompile(`(a|aa|aaa)+b(c|d)*e$`)
	kept    [4096][]byte
	next    int
	journal *os.File
)

func plain(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write(body)
}

// Sleeps while it holds what every other request needs.
func sleepWithLock(w http.ResponseWriter, r *http.Request) {
	lock.Lock()
	time.Sleep(2 * time.Millisecond)
	lock.Unlock()
	plain(w, r)
}

func sleep(w http.ResponseWriter, r *http.Request) {
	time.Sleep(2 * time.Millisecond)
	plain(w, r)
}

func allocate(w http.ResponseWriter, r *http.Request) {
	lock.Lock()
	for range 20 {
		kept[next%len(kept)] = make([]byte, 2048)
		next++
	}
	lock.Unlock()
	plain(w, r)
}

func flushPieces(w http.ResponseWriter, _ *http.Request) {
	for range 100 {
		_, _ = w.Write(body[:100])
		w.(http.Flusher).Flush()
	}
}

func onePiece(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write(large[:10000])
}

func writeJournal(w http.ResponseWriter, r *http.Request) {
	_, _ = journal.Write(body)
	plain(w, r)
}

func syncJournal(w http.ResponseWriter, r *http.Request) {
	_, _ = journal.Write(body)
	_ = journal.Sync()
	plain(w, r)
}

func spawn(w http.ResponseWriter, r *http.Request) {
	_ = exec.Command("/bin/true").Run()
	plain(w, r)
}

func parse(w http.ResponseWriter, _ *http.Request) {
	var all []map[string]any
	_ = json.Unmarshal([]byte("["+records+"]"), &all)
	text, _ := json.Marshal(all)
	_, _ = w.Write(text)
}

func match(w http.ResponseWriter, r *http.Request) {
	pattern.MatchString(strings.Repeat("a", 3000))
	plain(w, r)
}

// Looks a backend's name up for every request, as a client without a cache does.
func lookUp(server string) http.HandlerFunc {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server)
	}}
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := resolver.LookupHost(r.Context(), "backend.truth.test."); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		plain(w, r)
	}
}

func main() {
	var err error
	if journal, err = os.Create("journal"); err != nil {
		os.Exit(1)
	}
	habits := map[string]http.HandlerFunc{
		"plain": plain, "lock": sleepWithLock, "sleep": sleep, "allocate": allocate, "pieces": flushPieces,
		"one-piece": onePiece, "fsync": syncJournal, "write": writeJournal, "spawn": spawn, "json": parse, "regex": match,
	}
	handler := habits[os.Args[2]]
	if os.Args[2] == "dns" {
		handler = lookUp(os.Args[3])
	}
	if err = http.ListenAndServe("127.0.0.1:"+os.Args[1], handler); err != nil {
		os.Exit(1)
	}
}
