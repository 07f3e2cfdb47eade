// Resources of go-restful in front of a store that is asked by gRPC, with one habit, given by name:
// restful_app PORT HABIT [STORE_PORT]. With a habit `store...` it is the store.
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/emicklei/go-restful"
	"github.com/golang/protobuf/ptypes/wrappers"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"
)

const (
	rows = 20_000
	// How long the store takes to read its meter.
	reading  = 5 * time.Millisecond
	noteOf   = "/plant.Valves/Note"
	meterOf  = "/plant.Valves/Meter"
	reportOf = "/plant.Valves/Report"
	// How many notes a report has.
	reported = 600
	deadline = 2 * time.Second
	// What is longer goes to the client as it is.
	page = 4096
)

// ---- the store ----

type unary func(context.Context, *wrappers.UInt32Value) (*wrappers.StringValue, error)

func handler(work unary) func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
	return func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		asked := new(wrappers.UInt32Value)
		if err := decode(asked); err != nil {
			return nil, err
		}
		return work(ctx, asked)
	}
}

func store(port string, options ...grpc.ServerOption) {
	notes := make([]string, rows)
	for n := range notes {
		notes[n] = fmt.Sprintf("valve %d: %s", n, strings.Repeat("open and shut ", 4))
	}
	note := func(_ context.Context, asked *wrappers.UInt32Value) (*wrappers.StringValue, error) {
		return &wrappers.StringValue{Value: notes[asked.Value%rows]}, nil
	}
	meter := func(ctx context.Context, asked *wrappers.UInt32Value) (*wrappers.StringValue, error) {
		time.Sleep(reading)
		return note(ctx, asked)
	}
	report := func(_ context.Context, asked *wrappers.UInt32Value) (*wrappers.StringValue, error) {
		first := asked.Value % (rows - reported)
		return &wrappers.StringValue{Value: strings.Join(notes[first:first+reported], "\n")}, nil
	}
	server := grpc.NewServer(options...)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "plant.Valves", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			{MethodName: "Note", Handler: handler(note)}, {MethodName: "Meter", Handler: handler(meter)},
			{MethodName: "Report", Handler: handler(report)}},
	}, struct{}{})
	socket, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.Serve(socket))
}

// ---- the resources ----

type valve struct {
	Number uint32 `json:"number"`
	Note   string `json:"note"`
}

func dial(options ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.Dial("127.0.0.1:"+os.Args[3], append(options, grpc.WithInsecure())...)
}

// ask has the store answer for some valve.
func ask(ctx context.Context, store *grpc.ClientConn, method string) (valve, error) {
	ctx, stop := context.WithTimeout(ctx, deadline)
	defer stop()
	number := uint32(rand.Intn(rows))
	var said wrappers.StringValue
	err := store.Invoke(ctx, method, &wrappers.UInt32Value{Value: number}, &said)
	return valve{number, said.Value}, err
}

func answer(response *restful.Response, one valve, err error) {
	if err != nil {
		response.WriteError(http.StatusBadGateway, err)
		return
	}
	if len(one.Note) > page {
		response.Header().Set("Content-Type", "text/plain")
		response.Write([]byte(one.Note))
		return
	}
	response.WriteEntity(one)
}

// kept asks by one connection for all.
func kept(method string, options ...grpc.DialOption) restful.RouteFunction {
	store, err := dial(options...)
	if err != nil {
		log.Fatal(err)
	}
	return func(request *restful.Request, response *restful.Response) {
		one, err := ask(request.Request.Context(), store, method)
		answer(response, one, err)
	}
}

// dialled makes its client where it needs it, as examples do.
func dialled(request *restful.Request, response *restful.Response) {
	store, err := dial()
	if err != nil {
		answer(response, valve{}, err)
		return
	}
	defer store.Close()
	one, err := ask(request.Request.Context(), store, noteOf)
	answer(response, one, err)
}

func serve(port, habit string) {
	service := new(restful.WebService)
	service.Path("/valves").Produces(restful.MIME_JSON)
	var read restful.RouteFunction
	switch habit {
	case "notes-dialled":
		read = dialled
	case "notes":
		read = kept(noteOf)
	case "meters":
		read = kept(meterOf)
	case "reports-compressed":
		read = kept(reportOf, grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name)))
	case "reports":
		read = kept(reportOf)
	}
	service.Route(service.GET("").To(read))
	restful.Add(service)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+port, nil))
}

func main() {
	port, habit := os.Args[1], os.Args[2]
	switch habit {
	case "store":
		store(port)
	case "store-of-two-streams":
		store(port, grpc.MaxConcurrentStreams(2))
	default:
		serve(port, habit)
	}
}
