// A server in Go in front of PostgreSQL, with one habit, given by name: database PORT HABIT [DATABASE_PORT].
package main

import (
	"database/sql"
	"fmt"
	"log"
	"math/rand"
	"net/http"
	"os"
	"strings"

	_ "github.com/lib/pq"
)

var (
	body = []byte(strings.Repeat("x", 1024))
	db   *sql.DB
)

// ask runs one query and reads all of its rows.
func ask(query string, values ...any) error {
	rows, err := db.Query(query, values...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
	}
	return rows.Err()
}

// count adds one to a counter, in a transaction that takes 2 ms longer.
func count(id int) error {
	transaction, err := db.Begin()
	if err != nil {
		return err
	}
	defer transaction.Rollback()
	if _, err := transaction.Exec("update counters set n = n + 1 where id = $1", id); err != nil {
		return err
	}
	if _, err := transaction.Exec("select pg_sleep(0.002)"); err != nil {
		return err
	}
	return transaction.Commit()
}

func byID() error { return ask("select note from valves where id = $1", rand.Intn(20000)+1) }
func slow() error { return ask("select n, pg_sleep(0.004) from counters where id = 7") }
func byName() error {
	return ask("select note from valves where name = $1", fmt.Sprint("valve ", rand.Intn(20000)+1))
}

var habits = map[string]func() error{
	"plain":         func() error { return nil },
	"by-id":         byID,
	"by-name":       byName,
	"slow":          slow,
	"slow-over-one": slow,
	"default-pool":  byID,
	"one-counter":   func() error { return count(7) },
	"many-counters": func() error { return count(rand.Intn(64) + 1) },
}

func main() {
	habit := os.Args[2]
	if len(os.Args) > 3 {
		var err error
		where := fmt.Sprintf("host=127.0.0.1 port=%s user=truth dbname=postgres sslmode=disable", os.Args[3])
		if db, err = sql.Open("postgres", where); err != nil {
			log.Fatal(err)
		}
		db.SetMaxOpenConns(24)
		// The library keeps two when nothing is said.
		if habit != "default-pool" {
			db.SetMaxIdleConns(24)
		}
		if habit == "slow-over-one" {
			db.SetMaxOpenConns(1)
		}
	}
	work := habits[habit]
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if err := work(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		w.Write(body)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
