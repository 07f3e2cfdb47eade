// A front for HTTP whose work is done behind NATS, with one habit by name: nats_app PORT HABIT NATS_PORT [READY].
// With a habit `worker...` it is who answers there, and READY a file that says that it listens.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// How long a worker takes to read its meter.
	reading  = 4 * time.Millisecond
	deadline = 2 * time.Second
	// How long a survey waits for the halls, and how many there are.
	patience = 40 * time.Millisecond
	halls    = 4
	// What the books are told of an order.
	entries = 12
)

func connect(role string) *nats.Conn {
	bus, err := nats.Connect("nats://127.0.0.1:"+os.Args[3], nats.Name(role), nats.Timeout(deadline))
	if err != nil {
		log.Fatal(err)
	}
	return bus
}

// ---- who answers ----

func meterRead(asked *nats.Msg) {
	time.Sleep(reading)
	asked.Respond([]byte("meter " + string(asked.Data) + ": 7.5 bar"))
}

func work(habit string) {
	bus := connect("worker")
	listen := func(subject string, answer nats.MsgHandler) {
		if _, err := bus.Subscribe(subject, answer); err != nil {
			log.Fatal(err)
		}
	}
	if habit == "worker-of-many" {
		listen("meter", func(asked *nats.Msg) { go meterRead(asked) })
	} else {
		listen("meter", meterRead)
	}
	for hall := 0; hall < halls; hall++ {
		said := []byte(fmt.Sprintf("hall %d: %d valves are open", hall, hall*7))
		listen("survey", func(asked *nats.Msg) { asked.Respond(said) })
	}
	booked := 0
	listen("book", func(*nats.Msg) { booked++ })
	if err := bus.Flush(); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[4], nil, 0o644); err != nil {
		log.Fatal(err)
	}
	select {}
}

// ---- the front ----

func meter(bus *nats.Conn) (string, error) {
	said, err := bus.Request("meter", []byte("7"), deadline)
	if err != nil {
		return "", err
	}
	return string(said.Data), nil
}

// survey asks all halls at once, and gathers until it has as many answers as it wants or has waited long enough.
func survey(wanted int) func(*nats.Conn) (string, error) {
	return func(bus *nats.Conn) (string, error) {
		inbox := nats.NewInbox()
		answers, err := bus.SubscribeSync(inbox)
		if err != nil {
			return "", err
		}
		defer answers.Unsubscribe()
		if err := bus.PublishRequest("survey", inbox, nil); err != nil {
			return "", err
		}
		end := time.Now().Add(patience)
		var said []string
		for len(said) < wanted {
			answer, err := answers.NextMsg(time.Until(end))
			if err == nats.ErrTimeout {
				break
			}
			if err != nil {
				return "", err
			}
			said = append(said, string(answer.Data))
		}
		return strings.Join(said, "\n"), nil
	}
}

// order writes its entries into the books, and is sure at its end that they have arrived.
func order(each bool) func(*nats.Conn) (string, error) {
	return func(bus *nats.Conn) (string, error) {
		for n := 0; n < entries; n++ {
			if err := bus.Publish("book", []byte(fmt.Sprintf("step %d of the order is done", n))); err != nil {
				return "", err
			}
			if each {
				if err := bus.Flush(); err != nil {
					return "", err
				}
			}
		}
		return "ordered", bus.Flush()
	}
}

func serve(port, habit string) {
	do := map[string]func(*nats.Conn) (string, error){
		"meter": meter, "survey-awaited": survey(1 << 20), "survey": survey(halls), "order-by-entry": order(true), "order": order(false),
	}[habit]
	bus := connect("front")
	http.HandleFunc("/", func(response http.ResponseWriter, request *http.Request) {
		said, err := do(bus)
		if err != nil {
			http.Error(response, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(response, said)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+port, nil))
}

func main() {
	port, habit := os.Args[1], os.Args[2]
	if strings.HasPrefix(habit, "worker") {
		work(habit)
	}
	serve(port, habit)
}
