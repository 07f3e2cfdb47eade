// A plant's pages from a store in the process (badger), with one habit, given by name:
// badger_app PORT HABIT DIRECTORY [SUPPLIER_PORT].
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/dgraph-io/badger"
	"github.com/dgraph-io/badger/options"
)

const (
	valves, shown = 20_000, 10
	halls, in     = 40, 300
	// What a protocol has, which is more than badger keeps beside its key.
	protocolBytes = 3000
)

var (
	store    *badger.DB
	client   = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	supplier string
)

func valveKey(n int) []byte { return []byte(fmt.Sprintf("valve/%06d", n)) }

func protocols(hall int) []byte { return []byte(fmt.Sprintf("protocol/%03d/", hall)) }

// opened is the store, packed or not, with a cache for so many bytes of blocks.
func opened(directory string, packing options.CompressionType, cacheBytes int64) *badger.DB {
	made, err := badger.Open(badger.DefaultOptions(directory).WithLogger(nil).WithSyncWrites(false).
		WithCompression(packing).WithBlockSize(32 << 10).WithBlockCacheSize(cacheBytes))
	if err != nil {
		log.Fatal(err)
	}
	return made
}

func fill(into *badger.DB) {
	batch := into.NewWriteBatch()
	set := func(key []byte, value string) {
		if err := batch.Set(key, []byte(value)); err != nil {
			log.Fatal(err)
		}
	}
	for n := 0; n < valves; n++ {
		what := fmt.Sprintf("valve %d of hall %d, %d parts: ", n, n%halls, n%97)
		set(valveKey(n), what+strings.Repeat("open and shut ", 9))
	}
	for hall := 0; hall < halls; hall++ {
		for n := 0; n < in; n++ {
			what := fmt.Sprintf("protocol %d of hall %d ", n, hall)
			set([]byte(fmt.Sprintf("%s%05d", protocols(hall), n)), strings.Repeat(what, protocolBytes/len(what)))
		}
	}
	set([]byte("stock"), "0")
	if err := batch.Flush(); err != nil {
		log.Fatal(err)
	}
}

// list has some valves from all over the store.
func list() (string, error) {
	var said strings.Builder
	err := store.View(func(txn *badger.Txn) error {
		for n := 0; n < shown; n++ {
			item, err := txn.Get(valveKey(rand.Intn(valves)))
			if err != nil {
				return err
			}
			if err := item.Value(func(value []byte) error { said.Write(value[:16]); return said.WriteByte('\n') }); err != nil {
				return err
			}
		}
		return nil
	})
	return said.String(), err
}

// count says how many protocols a hall has; an iterator brings values with the keys unless it is told otherwise.
func count(how badger.IteratorOptions) func() (string, error) {
	return func() (string, error) {
		found := 0
		how := how
		how.Prefix = protocols(rand.Intn(halls))
		err := store.View(func(txn *badger.Txn) error {
			rows := txn.NewIterator(how)
			defer rows.Close()
			for rows.Rewind(); rows.Valid(); rows.Next() {
				found++
			}
			return nil
		})
		return fmt.Sprintf("%d protocols\n", found), err
	}
}

func askSupplier() (string, error) {
	answer, err := client.Get(supplier)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	return string(said), err
}

// sell takes one from the stock, as the supplier allows; badger refuses a commit when another one was faster.
func sell(txn *badger.Txn, ask func() (string, error)) error {
	item, err := txn.Get([]byte("stock"))
	if err != nil {
		return err
	}
	left := 0
	if err := item.Value(func(value []byte) error { left, err = strconv.Atoi(string(value)); return err }); err != nil {
		return err
	}
	if _, err := ask(); err != nil {
		return err
	}
	return txn.Set([]byte("stock"), []byte(strconv.Itoa(left-1)))
}

func sold(ask func() (string, error)) (string, error) {
	for {
		err := store.Update(func(txn *badger.Txn) error { return sell(txn, ask) })
		if !errors.Is(err, badger.ErrConflict) {
			return "sold\n", err
		}
	}
}

// sellAsking asks the supplier within the transaction.
func sellAsking() (string, error) { return sold(askSupplier) }

// sellAsked asks the supplier before there is a transaction.
func sellAsked() (string, error) {
	said, err := askSupplier()
	if err != nil {
		return "", err
	}
	return sold(func() (string, error) { return said, nil })
}

func main() {
	port, habit, directory := os.Args[1], os.Args[2], os.Args[3]
	if len(os.Args) > 4 {
		supplier = "http://127.0.0.1:" + os.Args[4] + "/stock"
	}
	keysOnly := badger.DefaultIteratorOptions
	keysOnly.PrefetchValues = false
	packing, cacheBytes, page := options.None, int64(0), list
	switch habit {
	case "list-packed":
		packing = options.Snappy
	case "list-packed-cached":
		packing, cacheBytes = options.Snappy, 64<<20
	case "list":
	case "count":
		page = count(badger.DefaultIteratorOptions)
	case "count-keys":
		page = count(keysOnly)
	case "sell-asking":
		page = sellAsking
	case "sell-asked":
		page = sellAsked
	default:
		log.Fatalf("no habit %s", habit)
	}
	// What was written comes into tables, and is packed there, when the store is closed.
	store = opened(directory, packing, cacheBytes)
	fill(store)
	if err := store.Close(); err != nil {
		log.Fatal(err)
	}
	store = opened(directory, packing, cacheBytes)
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		said, err := page()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, said)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+port, nil))
}
