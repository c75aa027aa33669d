package check_test

import (
	"context"
	"fmt"
	"strings"

	"stampede/harness/check"
	"stampede/harness/history"
)

// A sale of which one acknowledged order is missing at the end, and one of
// unknown outcome is there.
func ExampleEffects() {
	h, err := history.ReadNDJSON(strings.NewReader(`
{"id":71,"kind":"buy","client":"ann","outcome":"ok","start_ns":10,"end_ns":20,"reply":{"key":"o1"}}
{"id":72,"kind":"buy","client":"bob","outcome":"unknown","start_ns":11,"err":"timeout"}
{"id":73,"kind":"buy","client":"eve","outcome":"ok","start_ns":40,"end_ns":60,"reply":{"key":"o3"}}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	c := check.Collect(context.Background(), "acked-durable", h)
	orders := check.NewEffects()
	orders.Found(check.Effect{Op: 71, Name: "o1", Client: "ann"})
	orders.Found(check.Effect{Op: 72, Name: "o2", Client: "bob"})
	for r := range c.Records("buy") {
		orders.See(r)
	}
	orders.Durable(c)
	v := c.Verdict()
	fmt.Println(v.Status, "with witness", v.Witness)
	fmt.Println(v.Reason)
	// Output:
	// broken with witness [2]
	// operation 73 (key "", client "eve") was acknowledged at 60ns ("o3") but has no effect at the end
}

// An objective says where it is wrong and prints as it is written.
func ExampleParseObjective() {
	_, err := check.ParseObjective("p99(respons, buy) <= 500ms in steady")
	_, where, _ := strings.Cut(err.Error(), ", column")
	fmt.Println("column" + where)
	o, err := check.ParseObjective("p999(response,buy)<=1500us during redis-pause")
	fmt.Println(o, err)
	// Output:
	// column 5: expected response, service or lag, found "respons" (did you mean "response"?)
	// p99.9(response, buy) <= 1.5ms during redis-pause <nil>
}
