// The stock of a plant as a service of Go kit, with one habit: gokit_app PORT HABIT [PORT_OF_A_HALL ...].
// The same program is such a hall: gokit_app PORT hall DELAY_MS STATUS.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/go-kit/kit/endpoint"
	"github.com/go-kit/kit/log"
	"github.com/go-kit/kit/ratelimit"
	"github.com/go-kit/kit/sd"
	"github.com/go-kit/kit/sd/lb"
	kithttp "github.com/go-kit/kit/transport/http"
	"golang.org/x/time/rate"
)

const (
	firstInstallationPerS = 300
	attempts              = 8
	patience              = 5 * time.Second
)

type question struct{ valve int }

type answer struct {
	Valve int `json:"valve"`
	Stock int `json:"stock"`
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A connection for each request of the load may stay open.
var client = &http.Client{Transport: &http.Transport{MaxIdleConns: 256, MaxIdleConnsPerHost: 64}}

// ---- what is asked of a hall ----

func encode(_ context.Context, request *http.Request, asked interface{}) error {
	request.URL.RawQuery = fmt.Sprintf("valve=%d", asked.(question).valve)
	return nil
}

func decode(_ context.Context, response *http.Response) (interface{}, error) {
	defer io.Copy(io.Discard, response.Body)
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the hall says %s", response.Status)
	}
	var found answer
	err := json.NewDecoder(response.Body).Decode(&found)
	return found, err
}

func hallAt(port string) (endpoint.Endpoint, io.Closer, error) {
	where, err := url.Parse("http://127.0.0.1:" + port + "/stock")
	if err != nil {
		return nil, nil, err
	}
	return kithttp.NewClient("GET", where, encode, decode, kithttp.SetClient(client)).Endpoint(), nil, nil
}

func halls(ports []string) []endpoint.Endpoint {
	var all []endpoint.Endpoint
	for _, port := range ports {
		hall, _, err := hallAt(port)
		check(err)
		all = append(all, hall)
	}
	return all
}

// ---- the service ----

func own(_ context.Context, asked interface{}) (interface{}, error) {
	valve := asked.(question).valve
	return answer{valve, valve * 7 % 100}, nil
}

// Any hall knows the stock of all; if it cannot tell, the next one is asked.
func anyOf(ports []string) endpoint.Endpoint {
	known := sd.NewEndpointer(sd.FixedInstancer(ports), hallAt, log.NewNopLogger())
	return lb.Retry(attempts, patience, lb.NewRoundRobin(known))
}

// Each hall has a stock of its own, and the sum is wanted.
func inTurn(ports []string) endpoint.Endpoint {
	all := halls(ports)
	return func(ctx context.Context, asked interface{}) (interface{}, error) {
		sum := answer{Valve: asked.(question).valve}
		for _, hall := range all {
			found, err := hall(ctx, asked)
			if err != nil {
				return nil, err
			}
			sum.Stock += found.(answer).Stock
		}
		return sum, nil
	}
}

func atOnce(ports []string) endpoint.Endpoint {
	all := halls(ports)
	return func(ctx context.Context, asked interface{}) (interface{}, error) {
		stocks, errs := make([]int, len(all)), make([]error, len(all))
		var group sync.WaitGroup
		for n, hall := range all {
			group.Add(1)
			go func(n int, hall endpoint.Endpoint) {
				defer group.Done()
				found, err := hall(ctx, asked)
				if errs[n] = err; err == nil {
					stocks[n] = found.(answer).Stock
				}
			}(n, hall)
		}
		group.Wait()
		sum := answer{Valve: asked.(question).valve}
		for n, stock := range stocks {
			if errs[n] != nil {
				return nil, errs[n]
			}
			sum.Stock += stock
		}
		return sum, nil
	}
}

func service(habit string, ports []string) endpoint.Endpoint {
	switch habit {
	case "any":
		return anyOf(ports)
	case "in-turn":
		return inTurn(ports)
	case "at-once":
		return atOnce(ports)
	case "limited":
		return ratelimit.NewDelayingLimiter(rate.NewLimiter(firstInstallationPerS, 1))(own)
	}
	return own
}

func hall(delay time.Duration, status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(delay)
		w.WriteHeader(status)
		valve, _ := strconv.Atoi(r.URL.Query().Get("valve"))
		check(json.NewEncoder(w).Encode(answer{valve, valve * 7 % 100}))
	}
}

func main() {
	port, habit, rest := os.Args[1], os.Args[2], os.Args[3:]
	if habit == "hall" {
		delay, err := strconv.Atoi(rest[0])
		check(err)
		status, err := strconv.Atoi(rest[1])
		check(err)
		check(http.ListenAndServe("127.0.0.1:"+port, hall(time.Duration(delay)*time.Millisecond, status)))
	}
	read := func(context.Context, *http.Request) (interface{}, error) { return question{1 + rand.Intn(20000)}, nil }
	server := kithttp.NewServer(service(habit, rest), read, kithttp.EncodeJSONResponse)
	check(http.ListenAndServe("127.0.0.1:"+port, server))
}
