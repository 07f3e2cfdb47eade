// A server in Go in front of Redis, with one habit, given by name: store PORT HABIT STORE_PORT.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	valves = 3000
	// Of a lock whose holder died.
	expiryMS = 1000
)

var (
	pool     *redis.Pool
	requests atomic.Int64
)

func do(command string, arguments ...any) (any, error) {
	connection := pool.Get()
	defer connection.Close()
	return connection.Do(command, arguments...)
}

// fill makes valves with a pressure each, as a set of keys and as a set that is kept in order.
func fill() error {
	connection := pool.Get()
	defer connection.Close()
	for valve := 0; valve < valves; valve++ {
		pressure := valve * 7919 % valves
		connection.Send("SADD", "valves", valve)
		connection.Send("HSET", fmt.Sprint("valve:", valve), "pressure", pressure)
		connection.Send("ZADD", "by-pressure", pressure, valve)
	}
	_, err := connection.Do("")
	return err
}

// refresh is the work that the lock is there for: a list stays empty, and the store says so after 4 ms.
func refresh() error {
	_, err := do("BLPOP", "nothing", "0.004")
	return err
}

// locked works while no other process does; who finds the lock taken comes back 10 ms later.
func locked(lock string) error {
	for {
		taken, err := do("SET", lock, "1", "NX", "PX", expiryMS)
		if err != nil {
			return err
		}
		if taken != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	defer do("DEL", lock)
	return refresh()
}

var habits = map[string]func() error{
	"get":          func() error { _, err := do("HGET", "valve:7", "pressure"); return err },
	"sorted":       func() error { _, err := do("SORT", "valves", "BY", "valve:*->pressure", "LIMIT", 0, 10); return err },
	"kept-sorted":  func() error { _, err := do("ZRANGE", "by-pressure", 0, 9); return err },
	"one-lock":     func() error { return locked("lock:page") },
	"lock-of-each": func() error { return locked(fmt.Sprint("lock:", requests.Add(1))) },
}

func main() {
	work := habits[os.Args[2]]
	pool = &redis.Pool{MaxIdle: 32, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", "127.0.0.1:"+os.Args[3]) }}
	if err := fill(); err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if err := work(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"valve":7,"open":true}`))
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
