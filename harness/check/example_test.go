package check_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"stampede/harness/check"
	"stampede/harness/history"
)

// A system of rooms declares its facts by tags and its invariants as clauses.
func ExampleSubject() {
	type Booking struct {
		ID    string `json:"id" fact:"name"`
		Op    uint64 `json:"op" fact:"op"`
		Guest string `json:"guest" fact:"owner"`
		Room  string `json:"room" fact:"key"`
		First int64  `json:"first_night" fact:"from"`
		Last  int64  `json:"after_last" fact:"to"`
		State string `json:"state" fact:"state"`
	}
	decode := func(raw json.RawMessage) (list []Booking, err error) {
		err = json.Unmarshal(raw, &list)
		return list, err
	}
	rooms := &check.Subject{Read: check.Audited(decode, func(list *[]Booking) check.Facts {
		return check.Facts{Tables: []*check.Table{check.Rows("booking", *list)}}
	})}
	bookings := check.Effects{Table: "booking", Kind: check.Named("book")}
	stays := check.Capacity{Table: "booking", By: check.ByKey, Most: 1,
		Counts: func(f *check.Fact) bool { return f.State != "cancelled" }}
	invariants := []check.Invariant{
		rooms.State("room-exclusive", "no room is booked twice for a night", stays.Spans()),
		rooms.State("acked-durable", "every acknowledged booking is there at the end",
			check.AckedDurable(bookings)),
	}
	h, err := history.ReadNDJSON(strings.NewReader(`
{"id":1,"kind":"book","key":"7a","client":"ann","outcome":"ok","start_ns":1,"end_ns":20,"reply":{"key":"b1"}}
{"id":2,"kind":"book","key":"7a","client":"bob","outcome":"ok","start_ns":1,"end_ns":30,"reply":{"key":"b2"}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	audit := []byte(`[{"id":"b1","op":1,"guest":"ann","room":"7a","first_night":1,"after_last":4},
		{"id":"b2","op":2,"guest":"bob","room":"7a","first_night":3,"after_last":5}]`)
	for _, v := range check.All(context.Background(), invariants, h, audit) {
		fmt.Println(v.Invariant, "is", v.Status)
		for _, violation := range v.Violations {
			fmt.Println(violation.Text)
		}
	}
	// Output:
	// room-exclusive is broken
	// 7a: 2 at once, of at most 1: booking b1 of ann and booking b2 of bob overlap from 3 to 4
	// acked-durable is held
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
