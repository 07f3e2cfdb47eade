// Tariffs of a gas works, with one habit: tariffs_app PORT HABIT SERVICE_PORT.
// The habits `quotes`, `auditors` and `lists` are services that it asks: tariffs_app PORT quotes.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	customers    = 5000
	connections  = 16
	changedEvery = 50 * time.Millisecond
	eventsOpen   = 64
	listed       = 40
	// One customer in so many is watched.
	watched = 8
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// ---- the services behind ----

// One quote in forty comes from another house, which takes its time.
func quotes(w http.ResponseWriter, _ *http.Request) {
	if rand.Intn(40) == 0 {
		time.Sleep(120 * time.Millisecond)
	} else {
		time.Sleep(2 * time.Millisecond)
	}
	fmt.Fprintln(w, 100+rand.Intn(900))
}

func auditors(w http.ResponseWriter, r *http.Request) {
	count, err := io.Copy(io.Discard, r.Body)
	check(err)
	time.Sleep(time.Millisecond)
	fmt.Fprintln(w, count)
}

// A line for each of so many prices: `17 4711`.
func lists(port string) {
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	check(err)
	for {
		connection, err := listener.Accept()
		check(err)
		go func() {
			defer connection.Close()
			questions := bufio.NewScanner(connection)
			for questions.Scan() {
				var answer bytes.Buffer
				for n := 0; n < listed; n++ {
					fmt.Fprintf(&answer, "%d %d\n", n, 1000+rand.Intn(9000))
				}
				if _, err := connection.Write(answer.Bytes()); err != nil {
					return
				}
			}
		}()
	}
}

// ---- what a customer pays: tariffs change often, and a trader is asked for today's quote ----

type tariffs struct {
	guard   sync.RWMutex
	current []int
}

func newTariffs() *tariffs {
	t := &tariffs{current: make([]int, customers)}
	go func() {
		for range time.Tick(changedEvery) {
			changed := append([]int(nil), t.current...)
			changed[rand.Intn(customers)]++
			t.guard.Lock()
			t.current = changed
			t.guard.Unlock()
		}
	}()
	return t
}

func (t *tariffs) bill(trader *trader) string {
	t.guard.RLock()
	defer t.guard.RUnlock()
	customer := rand.Intn(customers)
	return fmt.Sprintf("customer %d pays %s at tariff %d", customer, trader.ask(), t.current[customer])
}

func (t *tariffs) billOfAMoment(trader *trader) string {
	t.guard.RLock()
	current := t.current
	t.guard.RUnlock()
	customer := rand.Intn(customers)
	return fmt.Sprintf("customer %d pays %s at tariff %d", customer, trader.ask(), current[customer])
}

type trader struct {
	client http.Client
	url    string
}

func newTrader(port string) *trader {
	return &trader{http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}, "http://127.0.0.1:" + port + "/"}
}

func (t *trader) post(body []byte) string {
	response, err := t.client.Post(t.url, "text/plain", bytes.NewReader(body))
	check(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	check(err)
	return string(bytes.TrimSpace(text))
}

func (t *trader) ask() string {
	return t.post(nil)
}

// ---- who looked at what is told to the auditors, beside the requests ----

func tellAuditors(t *trader, most int) chan<- string {
	events := make(chan string, eventsOpen)
	go func() {
		for event := range events {
			text := []byte(event)
			for count := 1; count < most && len(events) > 0; count++ {
				text = append(text, <-events...)
			}
			t.post(text)
		}
	}()
	return events
}

func looked(events chan<- string) string {
	customer := rand.Intn(customers)
	if customer%watched == 0 {
		events <- fmt.Sprintf("%s customer %d was looked at\n", time.Now().Format(time.RFC3339), customer)
	}
	return fmt.Sprintf("customer %d", customer)
}

// ---- a list of prices by a protocol of lines ----

type line struct {
	net.Conn
	answers io.Reader
}

func dial(port string, buffered bool) chan *line {
	free := make(chan *line, connections)
	for n := 0; n < connections; n++ {
		connection, err := net.Dial("tcp", "127.0.0.1:"+port)
		check(err)
		one := &line{connection, connection}
		if buffered {
			one.answers = bufio.NewReader(connection)
		}
		free <- one
	}
	return free
}

func list(free chan *line) string {
	one := <-free
	defer func() { free <- one }()
	_, err := fmt.Fprintln(one, "prices")
	check(err)
	sum := 0
	for n := 0; n < listed; n++ {
		var number, price int
		_, err := fmt.Fscanln(one.answers, &number, &price)
		check(err)
		sum += price
	}
	return fmt.Sprintf("%d for all", sum)
}

// ---- pages ----

func page(habit, port string) func() string {
	switch habit {
	case "bill", "bill-of-a-moment":
		all, trader := newTariffs(), newTrader(port)
		if habit == "bill" {
			return func() string { return all.bill(trader) }
		}
		return func() string { return all.billOfAMoment(trader) }
	case "looked-at-singly":
		events := tellAuditors(newTrader(port), 1)
		return func() string { return looked(events) }
	case "looked-at":
		events := tellAuditors(newTrader(port), eventsOpen)
		return func() string { return looked(events) }
	}
	free := dial(port, habit == "list")
	return func() string { return list(free) }
}

func serve(port string, handler http.HandlerFunc) {
	check(http.ListenAndServe("127.0.0.1:"+port, handler))
}

func main() {
	port, habit := os.Args[1], os.Args[2]
	switch habit {
	case "quotes":
		serve(port, quotes)
	case "auditors":
		serve(port, auditors)
	case "lists":
		lists(port)
	}
	made := page(habit, os.Args[3])
	serve(port, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, made()) })
}
