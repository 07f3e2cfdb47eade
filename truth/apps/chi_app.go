// An application with chi and a store in a file (bbolt), and one habit, given by name:
// chi_app PORT HABIT STORE [SERVICE].
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-chi/chi"
	"github.com/go-chi/chi/middleware"
	"go.etcd.io/bbolt"
)

const (
	// Readings that were kept for a while and removed, as so many of them as fit in one transaction at a time.
	old, together = 60_000, 20_000
	// How many requests at a time may ask the service, where they are counted, and how many where nobody need wait.
	few, many = 2, 64
	// How often the export is written.
	exportEach = time.Second
)

var (
	store    *bbolt.DB
	body     = []byte(strings.Repeat("x", 1024))
	visits   = []byte("visits")
	readings = []byte("readings")
	free     = make(chan net.Conn, 64)
	service  string
)

func key(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// ask asks the service for something on a connection that is kept.
func ask() error {
	var connection net.Conn
	select {
	case connection = <-free:
	default:
		dialled, err := net.Dial("tcp", "127.0.0.1:"+service)
		if err != nil {
			return err
		}
		connection = dialled
	}
	fmt.Fprint(connection, "GET /bytes/16 HTTP/1.1\r\nHost: service\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	free <- connection
	return nil
}

// fill writes readings and removes all but a few: the pages that they were in are free afterwards, and listed as such.
func fill(count int) error {
	for first := 0; first < count; first += together {
		err := store.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists(readings)
			for n := first; n < first+together && err == nil; n++ {
				err = bucket.Put(key(n), body)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return store.Update(func(tx *bbolt.Tx) error {
		if tx.Bucket(readings) != nil {
			if err := tx.DeleteBucket(readings); err != nil {
				return err
			}
		}
		_, err := tx.CreateBucketIfNotExists(visits)
		return err
	})
}

// visit counts a visit of a page in the store, in a transaction of its own.
func visit(w http.ResponseWriter, r *http.Request) {
	err := store.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(visits)
		page, before := []byte(chi.URLParam(r, "page")), uint64(0)
		if found := bucket.Get(page); found != nil {
			before = binary.BigEndian.Uint64(found)
		}
		return bucket.Put(page, binary.BigEndian.AppendUint64(nil, before+1))
	})
	answer(w, err)
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Write(body)
}

// seen shows how often a page was seen.
func seen(w http.ResponseWriter, r *http.Request) {
	err := store.View(func(tx *bbolt.Tx) error {
		tx.Bucket(visits).Get([]byte(chi.URLParam(r, "page")))
		return nil
	})
	answer(w, err)
}

// price is the service's.
func price(w http.ResponseWriter, r *http.Request) { answer(w, ask()) }

// exportInside writes what was seen to the store of exports, and notes in the same transaction that it was written.
func exportInside() {
	for range time.Tick(exportEach) {
		store.Update(func(tx *bbolt.Tx) error {
			if err := ask(); err != nil {
				return err
			}
			return tx.Bucket(visits).Put([]byte("exported"), key(1))
		})
	}
}

// exportBefore notes it in a transaction that begins when all is written.
func exportBefore() {
	for range time.Tick(exportEach) {
		if ask() == nil {
			store.Update(func(tx *bbolt.Tx) error { return tx.Bucket(visits).Put([]byte("exported"), key(1)) })
		}
	}
}

func main() {
	if len(os.Args) > 4 {
		service = os.Args[4]
	}
	// What is lost with the power is a few counts, and nobody waits for the disk.
	options := bbolt.Options{NoSync: true, FreelistType: bbolt.FreelistArrayType}
	router := chi.NewRouter()
	page, count := http.HandlerFunc(visit), 0
	switch os.Args[2] {
	case "visit-after-years":
		count = old
	case "visit-after-years-list-unwritten":
		count = old
		options.NoFreelistSync, options.FreelistType = true, bbolt.FreelistMapType
	case "seen":
		page = seen
	case "price-throttled":
		router.Use(middleware.ThrottleBacklog(few, many, time.Minute))
		page = price
	case "price":
		router.Use(middleware.ThrottleBacklog(many, many, time.Minute))
		page = price
	}
	opened, err := bbolt.Open(os.Args[3], 0o600, &options)
	if err != nil {
		log.Fatal(err)
	}
	store = opened
	if err := fill(count); err != nil {
		log.Fatal(err)
	}
	switch os.Args[2] {
	case "visit-export-inside":
		go exportInside()
	case "visit-export-before":
		go exportBefore()
	}
	router.Get("/pages/{page}", page)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], router))
}
