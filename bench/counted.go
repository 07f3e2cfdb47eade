// A server of net/http that counts its own requests, for watching.py: / answers 1 KiB, /count says how many it answered.
//
// The surprise: /count is not counted, so that to ask does not change the answer.
package main

import (
	"bytes"
	"fmt"
	"log"
	"net/http"
	"os"
	"sync/atomic"
)

func main() {
	var answered atomic.Int64
	body := bytes.Repeat([]byte("x"), 1024)
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		answered.Add(1)
		_, _ = w.Write(body) // A client that has gone is no fault of ours.
	})
	http.HandleFunc("/count", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, answered.Load())
	})
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
