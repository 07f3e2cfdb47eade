// A server with gorilla/mux in front of MariaDB, with one habit, given by name: gorilla_app PORT HABIT [DATABASE_PORT].
package main

import (
	"database/sql"
	"fmt"
	"log"
	"math/rand"
	"net/http"
	"os"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/gorilla/mux"
)

const (
	// Halls of the plant and how many pages each has.
	halls, rows, connections = 150, 20_000, 16
	// How often the totals are made.
	totalsEach = time.Second
)

var (
	db    *sql.DB
	body  = []byte(strings.Repeat("x", 1024))
	pages = []string{"valves", "meters", "notes", "keepers", "visits"}
)

func answer(w http.ResponseWriter, what []byte, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Write(what)
}

// note shows the note of some valve, found by a query with one place for its number.
func note(query string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var text string
		err := db.QueryRow(query, rand.Intn(rows)+1).Scan(&text)
		answer(w, []byte(text), err)
	}
}

// state shows what a valve of a hall does.
func state(w http.ResponseWriter, r *http.Request) {
	answer(w, append([]byte(mux.Vars(r)["id"]+" "), body...), nil)
}

// visit counts a visit of some page.
func visit(w http.ResponseWriter, r *http.Request) {
	_, err := db.Exec("update counters set n = n + 1 where id = ?", rand.Intn(64)+1)
	answer(w, body, err)
}

// routesOfEachHall has a route for each page of each hall, as a generator of routes wrote them.
func routesOfEachHall(router *mux.Router) {
	for hall := 1; hall <= halls; hall++ {
		for _, page := range pages {
			router.HandleFunc(fmt.Sprintf("/halls/%d/%s/{id:[0-9]+}", hall, page), state)
		}
	}
}

// routesOfAllHalls has the hall as a variable.
func routesOfAllHalls(router *mux.Router) {
	for _, page := range pages {
		router.HandleFunc("/halls/{hall:[0-9]+}/"+page+"/{id:[0-9]+}", state)
	}
}

// The totals of the day, for the board at the gate: every valve is weighed with every counter.
const totals = "select sum(n), sum(sqrt(valves.id * n)) from counters cross join valves where counters.id <= 40"

// totalsUnderLock keeps everybody from counting meanwhile, so that the totals fit each other.
func totalsUnderLock() error {
	connection, err := db.Begin()
	if err != nil {
		return err
	}
	defer connection.Rollback()
	for _, statement := range []string{"lock tables counters write, valves read", totals, "unlock tables"} {
		if _, err := connection.Exec(statement); err != nil {
			return err
		}
	}
	return nil
}

// totalsOfSnapshot reads what was there when it began.
func totalsOfSnapshot() error {
	connection, err := db.Begin()
	if err != nil {
		return err
	}
	defer connection.Rollback()
	_, err = connection.Exec(totals)
	return err
}

func each(work func() error) {
	for range time.Tick(totalsEach) {
		if err := work(); err != nil {
			log.Print(err)
		}
	}
}

func main() {
	if len(os.Args) > 3 {
		opened, err := sql.Open("mysql", "truth@tcp(127.0.0.1:"+os.Args[3]+")/truth?interpolateParams=true")
		if err != nil {
			log.Fatal(err)
		}
		db = opened
		db.SetMaxOpenConns(connections)
		db.SetMaxIdleConns(connections)
	}
	router := mux.NewRouter()
	switch os.Args[2] {
	case "routes-of-each-hall":
		routesOfEachHall(router)
	case "routes-of-all-halls":
		routesOfAllHalls(router)
	case "note-by-label":
		router.HandleFunc("/", note("select note from valves where concat('V', lpad(id, 6, '0')) = concat('V', lpad(?, 6, '0'))"))
	case "note":
		router.HandleFunc("/", note("select note from valves where id = ?"))
	case "visits-totals-under-lock":
		router.HandleFunc("/", visit)
		go each(totalsUnderLock)
	case "visits-totals-of-snapshot":
		router.HandleFunc("/", visit)
		go each(totalsOfSnapshot)
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], router))
}
