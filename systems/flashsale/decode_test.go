package flashsale_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"stampede/systems/flashsale"
)

func TestDecodeAudit(t *testing.T) {
	raw, err := os.ReadFile("testdata/sale.json")
	if err != nil {
		t.Fatal(err)
	}
	good := string(raw)
	for _, c := range []struct{ name, old, new, want string }{
		{"as it is", "", "", ""},
		{"an unknown field", `"items"`, `"colour": "red", "items"`, ""},
		{"cut short", good[len(good)/2:], "", "unexpected end"},
		{"something after it", good, good + "{}", "after top-level value"},
		{"a text for a number", `"units": 2`, `"units": "2"`, "items.units"},
		{"a fraction", `"units": 2`, `"units": 2.5`, "items.units"},
		{"an item without a name", `"item": "item-1", "units"`, `"units"`,
			"items[0].item: it is missing"},
		{"an item without a count", `"available": 1, `, "", "items[0].available: it is missing"},
		{"a count that is null", `"available": 1, `, `"available": null, `, "items[0].available"},
		{"a unit without a number", `"unit": 1, "state": "sold"`, `"state": "sold"`,
			"units[0].unit: it is missing"},
		{"a unit in no state", `"state": "sold"`, `"state": "lost"`,
			`units[0].state: expected one of ["available" "held" "sold"], got "lost"`},
		{"a unit without a version", `, "version": 4}`, "}", "units[1].version"},
		{"an order without an op_id", `"op_id": 512, `, "", "orders[1].op_id"},
		{"a negative op_id", `"op_id": 512`, `"op_id": -512`, "orders.op_id"},
		{"an order without a buyer", `"buyer": "bob", `, "", "orders[1].buyer"},
		{"an order in no state", `"state": "expired"`, `"state": "late"`, "orders[1].state"},
		{"an order of no time", `"held_at_ns": 50002000000, `, "", "orders[1].held_at_ns"},
		{"a closed order without an end", `, "closed_at_ns": 51050000000`, "", "orders[1].closed_at_ns"},
		{"a payment that does not say", `"captured": true, "refunded": true`, `"refunded": true`,
			"payments[1].captured: it is missing"},
		{"a payment with negative effects", `"effects": 1}`, `"effects": -1}`, "payments[0].effects"},
		{"a log in disorder", `"seq": 3`, `"seq": 2`,
			"log[2].seq: expected a number above the entry's before (2), got 2"},
		{"a log without a cause", `, "cause": "paid"`, "", "log[2].cause"},
		{"a log of nowhere", `"from": "held", "to": "sold"`, `"to": "sold"`, "log[2].from"},
		{"redis without a stock", `"stock": 1, `, "", "redis[0].stock"},
		{"a negative slack", `"reclaim_slack_ns": 4`, `"reclaim_slack_ns": -4`, "reclaim_slack_ns"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(good, c.old, c.new, 1)
			if c.old != "" && text == good {
				t.Fatal("the case changes nothing")
			}
			_, err := flashsale.DecodeAudit(json.RawMessage(text))
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v does not contain %q", err, c.want)
			}
		})
	}
}

// TestDecodeAuditKeepsAbsence: an absent list is not an empty one.
func TestDecodeAuditKeepsAbsence(t *testing.T) {
	a, err := flashsale.DecodeAudit(json.RawMessage(`{"orders": [], "log": null}`))
	if err != nil {
		t.Fatal(err)
	}
	if a.Orders == nil || a.Log != nil || a.Payments != nil {
		t.Errorf("got %+v, want empty orders and nothing else", a)
	}
}

// FuzzDecodeAudit: whatever decodes encodes to the same audit again, and no
// judge panics on it.
func FuzzDecodeAudit(f *testing.F) {
	raw, err := os.ReadFile("testdata/sale.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"orders":[{"order":"a","op_id":1,"item":"i","buyer":"b","state":"held",` +
		`"held_at_ns":1}],"log":[{"order":"a","item":"i","from":"held","to":"sold","cause":"paid",` +
		`"at_ns":9223372036854775807}],"reclaim_slack_ns":9223372036854775807}`))
	sale := goodSale(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := flashsale.DecodeAudit(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := flashsale.DecodeAudit(again)
		if err != nil {
			t.Fatalf("what was decoded is refused: %v", err)
		}
		if len(a.Units) > 0 && len(a.Redis) > 0 && !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v became %+v", a, b)
		}
		for _, v := range sale.judgeRaw(t, data) {
			if strings.Contains(v.Reason, "panicked") {
				t.Fatal(v.Invariant, v.Reason)
			}
		}
	})
}
