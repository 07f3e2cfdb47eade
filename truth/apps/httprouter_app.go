// A server with httprouter and goleveldb, with one habit, given by name:
// httprouter_app PORT HABIT DIRECTORY [SERVICE_PORT].
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/julienschmidt/httprouter"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/util"
)

const (
	valves = 20_000
	// How many orders were done since the store was opened, and how many are still to do.
	done, todo = 20_000, 200
)

var (
	store *leveldb.DB
	// Before what there is no order left.
	firstOrder struct {
		sync.Mutex
		key []byte
	}
	// What a request is given up with, as in the language that this was ported from.
	errNotFound = errors.New("no such valve")
)

func number(prefix string, n int) []byte {
	return binary.BigEndian.AppendUint32([]byte(prefix), uint32(n))
}

func fill() {
	batch := new(leveldb.Batch)
	for n := 0; n < valves; n++ {
		batch.Put(number("valve", n), []byte(fmt.Sprintf("valve %d %s", n, strings.Repeat("open and shut ", 8))))
	}
	for n := 0; n < done+todo; n++ {
		batch.Put(number("order", n), []byte(fmt.Sprintf("look at valve %d", n)))
	}
	if err := store.Write(batch, nil); err != nil {
		log.Fatal(err)
	}
	for n := 0; n < done; n++ {
		if err := store.Delete(number("order", n), nil); err != nil {
			log.Fatal(err)
		}
	}
}

func answer(w http.ResponseWriter, what []byte, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Write(what)
}

// valve shows one of the valves.
func valve(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
	what, err := store.Get(number("valve", rand.Intn(valves)), nil)
	answer(w, what, err)
}

// order shows the first order that is still to do, looked for from a key on.
func order(from func() []byte, found func([]byte)) httprouter.Handle {
	return func(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
		all := store.NewIterator(&util.Range{Start: from(), Limit: []byte("ordes")}, nil)
		defer all.Release()
		if !all.First() {
			answer(w, nil, errors.New("nothing to do"))
			return
		}
		found(all.Key())
		answer(w, append([]byte(nil), all.Value()...), all.Error())
	}
}

func fromTheStart() []byte { return []byte("order") }

func fromTheLast() []byte {
	firstOrder.Lock()
	defer firstOrder.Unlock()
	if firstOrder.key == nil {
		return []byte("order")
	}
	return firstOrder.key
}

func keep(key []byte) {
	firstOrder.Lock()
	defer firstOrder.Unlock()
	firstOrder.key = append([]byte(nil), key...)
}

// asked shows a valve whose keeper's service says that it may be shown; only the status of its answer matters.
func asked(port string, read bool) httprouter.Handle {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute}}
	return func(w http.ResponseWriter, r *http.Request, p httprouter.Params) {
		said, err := client.Get("http://127.0.0.1:" + port + "/")
		if err != nil {
			answer(w, nil, err)
			return
		}
		if read {
			io.Copy(io.Discard, said.Body)
		}
		said.Body.Close()
		if said.StatusCode != http.StatusOK {
			answer(w, nil, errors.New(said.Status))
			return
		}
		valve(w, r, p)
	}
}

// optional shows a valve that may have a note; `note` says by a panic that there is none.
func optional(note func(key []byte) []byte) httprouter.Handle {
	return func(w http.ResponseWriter, r *http.Request, p httprouter.Params) {
		what, err := store.Get(number("valve", rand.Intn(valves)), nil)
		answer(w, append(what, guarded(note)...), err)
	}
}

// guarded keeps the stack of whatever went wrong for the next report.
func guarded(note func(key []byte) []byte) (text []byte) {
	defer func() {
		if err := recover(); err != nil {
			lastFailure.Store("stack", debug.Stack())
		}
	}()
	return note(number("note", rand.Intn(valves)))
}

var lastFailure sync.Map

// mustNote is called deep inside of what an application builds on.
func mustNote(key []byte) []byte {
	return deeper(12, func() []byte {
		text, err := store.Get(key, nil)
		if err != nil {
			panic(errNotFound)
		}
		return text
	})
}

func noteIfAny(key []byte) []byte {
	return deeper(12, func() []byte {
		text, _ := store.Get(key, nil)
		return text
	})
}

// deeper is a chain of layers, as decorators of a repository are.
//
//go:noinline
func deeper(layers int, work func() []byte) []byte {
	if layers == 0 {
		return work()
	}
	return deeper(layers-1, work)
}

func main() {
	opened, err := leveldb.OpenFile(os.Args[3], nil)
	if err != nil {
		log.Fatal(err)
	}
	store = opened
	fill()
	router := httprouter.New()
	switch os.Args[2] {
	case "valve":
		router.GET("/", valve)
	case "order-from-the-start":
		router.GET("/", order(fromTheStart, func([]byte) {}))
	case "order-from-the-last":
		router.GET("/", order(fromTheLast, keep))
	case "asked-unread":
		router.GET("/", asked(os.Args[4], false))
	case "asked":
		router.GET("/", asked(os.Args[4], true))
	case "note-by-panic":
		router.GET("/", optional(mustNote))
	case "note":
		router.GET("/", optional(noteIfAny))
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], router))
}
