// A server with fasthttp and one habit, given by name: fasthttp_app PORT HABIT [STORE_OR_SERVICE_PORT].
package main

import (
	"fmt"
	"log"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/valyala/fasthttp"
)

const (
	sessions = 300_000
	orders   = 150_000
	// For which the report stays in the cache.
	reportLifeMS = 1000
	// How often a service is asked before its answer is missed.
	attempts = 50
)

type session struct {
	user string
	cart []int
}

var (
	body     = []byte(strings.Repeat("x", 1024))
	kept     = map[int]*session{}
	store    *redis.Pool
	gatherer sync.Mutex
	service  *fasthttp.HostClient
)

func plain(c *fasthttp.RequestCtx) { c.Write(body) }

// logIn keeps the sessions of a day in memory.
func logIn() {
	for n := 0; n < sessions; n++ {
		kept[n] = &session{fmt.Sprint("user ", n), make([]int, 8)}
	}
}

// cart shows one session's, with some garbage as any page leaves it.
func cart(c *fasthttp.RequestCtx) {
	one := kept[int(c.ID())%sessions]
	rows := make([]string, 0, len(one.cart))
	for n, pieces := range one.cart {
		rows = append(rows, fmt.Sprintf("%s: valve %d, %d pieces", one.user, n, pieces))
	}
	c.WriteString(strings.Join(rows, "\n"))
}

// gatherReport goes through all orders: what the cache is there to spare.
func gatherReport() []byte {
	customers := make([]string, orders)
	for n := range customers {
		customers[n] = fmt.Sprint("customer ", n*7919%orders)
	}
	sort.Strings(customers)
	return []byte(strings.Join(customers[:20], "\n"))
}

func do(command string, arguments ...any) (any, error) {
	connection := store.Get()
	defer connection.Close()
	return connection.Do(command, arguments...)
}

func cached() []byte {
	report, _ := redis.Bytes(do("GET", "report"))
	return report
}

func keep(report []byte) []byte {
	do("SET", "report", report, "PX", reportLifeMS)
	return report
}

// reportByAll is gathered by everyone who does not find it.
func reportByAll(c *fasthttp.RequestCtx) {
	report := cached()
	if report == nil {
		report = keep(gatherReport())
	}
	c.Write(report)
}

// reportByOne is gathered by one, and the others wait for it.
func reportByOne(c *fasthttp.RequestCtx) {
	report := cached()
	if report == nil {
		gatherer.Lock()
		if report = cached(); report == nil {
			report = keep(gatherReport())
		}
		gatherer.Unlock()
	}
	c.Write(report)
}

func count(c *fasthttp.RequestCtx) {
	n, err := redis.Int(do("INCR", "visits"))
	if err != nil {
		c.Error(err.Error(), fasthttp.StatusBadGateway)
		return
	}
	fmt.Fprintf(c, `{"visits":%d}`, n)
}

// ask passes on what a service says; whoever does not answer in time is asked again.
func ask(c *fasthttp.RequestCtx) {
	request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(request)
	defer fasthttp.ReleaseResponse(response)
	request.SetRequestURI("http://" + service.Addr + "/")
	for n := 0; n < attempts; n++ {
		if service.Do(request, response) == nil {
			c.Write(response.Body())
			return
		}
	}
	c.Error("the service does not answer", fasthttp.StatusGatewayTimeout)
}

func main() {
	if len(os.Args) > 3 {
		store = &redis.Pool{MaxIdle: 64, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", "127.0.0.1:"+os.Args[3]) }}
	}
	page := plain
	switch os.Args[2] {
	case "cart":
		logIn()
		page = cart
	case "report-by-all":
		page = reportByAll
	case "report-by-one":
		page = reportByOne
	case "count":
		page = count
	case "asks", "asks-impatiently":
		service = &fasthttp.HostClient{Addr: "127.0.0.1:" + os.Args[3], ReadTimeout: time.Second}
		if os.Args[2] == "asks-impatiently" {
			service.ReadTimeout = 4 * time.Millisecond
		}
		page = ask
	}
	log.Fatal(fasthttp.ListenAndServe("127.0.0.1:"+os.Args[1], page))
}
