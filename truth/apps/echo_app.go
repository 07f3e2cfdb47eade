// An application on Echo with one habit, given by name: echo_app PORT HABIT [DATABASE_PORT [MORE_OF_THE_URL]].
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v4/pgxpool"
	"github.com/labstack/echo"
)

const (
	valves     = 200
	customers  = 1_500_000
	returnEach = 200 * time.Millisecond
	connection = 16
	// A valve and those of the same shelf; what it costs is to be planned.
	neighbours = `select v.name, c.n, w.name, d.n, x.name, e.n from valves v
		join counters c on c.id = v.id % 64 + 1 join valves w on w.id = c.id + 1 join counters d on d.id = w.id
		join valves x on x.id = d.id + 1 join counters e on e.id = x.id where v.id = $1`
)

var body = strings.Repeat("x", 1024)

type valve struct {
	ID     int      `json:"id"`
	Name   string   `json:"name"`
	Note   string   `json:"note"`
	States []string `json:"states"`
}

type customer struct {
	name    string
	visited *time.Time
}

func plain(c echo.Context) error { return c.String(http.StatusOK, body) }

func list(c echo.Context) error {
	found := make([]valve, valves)
	for n := range found {
		found[n] = valve{n, "valve " + strconv.Itoa(n), "open and shut", []string{"open", "shut", "in repair"}}
	}
	return c.JSON(http.StatusOK, found)
}

// beside answers with a valve's neighbours, which the database knows.
func beside() echo.HandlerFunc {
	pool, err := pgxpool.Connect(context.Background(), "postgres://truth@127.0.0.1:"+os.Args[3]+
		"/postgres?sslmode=disable&pool_max_conns="+strconv.Itoa(connection)+strings.Join(os.Args[4:], ""))
	if err != nil {
		log.Fatal(err)
	}
	return func(c echo.Context) error {
		var names [3]string
		var counts [3]int
		row := pool.QueryRow(c.Request().Context(), neighbours, 7)
		if err := row.Scan(&names[0], &counts[0], &names[1], &counts[1], &names[2], &counts[2]); err != nil {
			return err
		}
		return c.String(http.StatusOK, strings.Join(names[:], "\n"))
	}
}

// greet answers from a cache of customers in memory.
func greet() echo.HandlerFunc {
	known := make(map[int]*customer, customers)
	for n := 0; n < customers; n++ {
		visited := time.Unix(int64(n), 0)
		known[n] = &customer{"customer " + strconv.Itoa(n), &visited}
	}
	return func(c echo.Context) error { return c.String(http.StatusOK, "Good morning, "+known[7].name) }
}

// returnMemory gives the system back what is free, as somebody's small container once wanted.
func returnMemory() {
	for range time.Tick(returnEach) {
		debug.FreeOSMemory()
	}
}

func main() {
	server := echo.New()
	server.HideBanner, server.HidePort = true, true
	page := plain
	switch os.Args[2] {
	case "list":
		page = list
	case "list-debug":
		server.Debug = true
		page = list
	case "beside":
		page = beside()
	case "greet":
		page = greet()
	case "greet-memory-returned":
		page = greet()
		go returnMemory()
	}
	server.GET("/", page)
	log.Fatal(server.Start("127.0.0.1:" + os.Args[1]))
}
