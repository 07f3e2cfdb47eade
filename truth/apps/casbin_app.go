// Orders of a plant, to which casbin lets who may see them: casbin_app PORT HABIT [DUTIES_PORT].
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/casbin/casbin/v2"
	"github.com/casbin/casbin/v2/model"
	fileadapter "github.com/casbin/casbin/v2/persist/file-adapter"
)

const (
	halls       = 40
	fitters     = 3000
	loadedAgain = 2 * time.Second
)

// What rules say, by the form in which they say it; they differ in the matcher.
const rules = `[request_definition]
r = sub, obj, act
[policy_definition]
p = sub, obj, act
[role_definition]
g = _, _
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = `

var matchers = map[string]string{
	// The path as it was asked for is compared with patterns.
	"paths": "r.act == p.act && keyMatch2(r.obj, p.obj) && g(r.sub, p.sub)",
	// The router has said which route it is.
	"routes": "r.act == p.act && r.obj == p.obj && g(r.sub, p.sub)",
	// Whoever is on duty in the hall that a rule is about.
	"duties-first": "onDuty(r.sub, p.sub) && r.obj == p.obj && r.act == p.act",
	"duties-last":  "r.obj == p.obj && r.act == p.act && onDuty(r.sub, p.sub)",
}

var (
	turns  atomic.Int64
	duties = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
)

// A role for each hall, which may see and change what is there, and people in roles.
func policy() string {
	var text strings.Builder
	for hall := 0; hall < halls; hall++ {
		for _, thing := range []string{"orders", "pumps", "valves"} {
			for _, act := range []string{"GET", "PUT"} {
				fmt.Fprintf(&text, "p, hall%d, /halls/%d/%s/:id, %s\n", hall, hall, thing, act)
			}
		}
	}
	for fitter := 0; fitter < fitters; fitter++ {
		for n := 0; n < 5; n++ {
			fmt.Fprintf(&text, "g, fitter%d, hall%d\n", fitter, (fitter+n)%halls)
		}
	}
	return text.String()
}

// Twelve halls have somebody on duty.
func dutyPolicy() string {
	var text strings.Builder
	for hall := 0; hall < 12; hall++ {
		fmt.Fprintf(&text, "p, hall%d, /halls/%d/orders/:id, GET\n", hall, hall)
	}
	return text.String()
}

// Asks the list of duties whether a fitter is on duty in a hall.
func onDuty(port string) func(...interface{}) (interface{}, error) {
	return func(of ...interface{}) (interface{}, error) {
		answer, err := duties.Get(fmt.Sprintf("http://127.0.0.1:%s/bytes/16?hall=%s&fitter=%s", port, of[1], of[0]))
		if err != nil {
			return false, err
		}
		defer answer.Body.Close()
		_, err = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode == http.StatusOK, err
	}
}

// An order of each hall in turn, for somebody who may see it.
func page(enforcer casbin.IEnforcer, known int, byRoute bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		turn := int(turns.Add(1))
		hall := turn * 7 % known
		object := fmt.Sprintf("/halls/%d/orders/%d", hall, turn)
		if byRoute {
			object = fmt.Sprintf("/halls/%d/orders/:id", hall)
		}
		allowed, err := enforcer.Enforce(fmt.Sprintf("fitter%d", turn*halls%fitters+hall), object, "GET")
		if err != nil || !allowed {
			http.Error(w, fmt.Sprint("not for you: ", err), http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, "order %d of hall %d: a seal\n", turn, hall)
	}
}

func main() {
	port, habit := os.Args[1], os.Args[2]
	matcher, known, text := habit, halls, policy()
	if strings.HasPrefix(habit, "duties") {
		known, text = 12, dutyPolicy()
	} else if habit != "paths" {
		matcher = "routes"
	}
	file := os.Getenv("OWN") + "/policy.csv"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		panic(err)
	}
	form, err := model.NewModelFromString(rules + matchers[matcher])
	if err != nil {
		panic(err)
	}
	enforcer, err := casbin.NewSyncedEnforcer(form, fileadapter.NewAdapter(file))
	if err != nil {
		panic(err)
	}
	if len(os.Args) > 3 {
		enforcer.AddFunction("onDuty", onDuty(os.Args[3]))
	}
	if habit == "routes-loaded-again" {
		enforcer.StartAutoLoadPolicy(loadedAgain)
	}
	panic(http.ListenAndServe("127.0.0.1:"+port, page(enforcer, known, habit != "paths")))
}
