package flashsale

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"stampede/harness/sut"
)

// TestReconcilerDecides: when a difference between the stores is a fault.
func TestReconcilerDecides(t *testing.T) {
	const patience = time.Second
	type look struct {
		after         time.Duration
		present       bool
		stock, active int64 // of 10 units
		rebuild       bool
	}
	for name, looks := range map[string][]look{
		"in line": {{0, true, 7, 3, false}, {patience * 9, true, 7, 3, false}},
		"lost":    {{0, false, 0, 3, true}},
		"purchases under way": {
			{0, true, 6, 3, false}, {patience / 2, true, 6, 3, false}, {patience, true, 6, 4, false}},
		"always others": {
			{0, true, 6, 3, false}, {2 * patience, true, 5, 4, false}, {4 * patience, true, 4, 5, false}},
		"leak": {
			{0, true, 6, 3, false}, {patience, true, 6, 3, false}, {patience + 1, true, 6, 3, true}},
		"leak that was none": {
			{0, true, 6, 3, false}, {patience, true, 7, 3, false}, {2 * patience, true, 6, 3, false}},
		"too high once":        {{0, true, 8, 3, false}, {patience, true, 7, 3, false}},
		"too high twice":       {{0, true, 8, 3, false}, {1, true, 8, 3, true}},
		"too high and changed": {{0, true, 8, 3, false}, {1, true, 7, 4, true}},
	} {
		r := &reconciliation{mismatches: map[string]mismatch{}}
		for i, l := range looks {
			b := balance{present: l.present, stock: l.stock, active: l.active,
				drift: 10 - l.stock - l.active}
			if got := r.wrong(b, time.Unix(0, 0).Add(l.after), patience); got != l.rebuild {
				t.Errorf("%s: look %d: rebuild = %t, want %t", name, i, got, l.rebuild)
			}
		}
	}
}

// TestLineGroups: order is kept, equal requests share a place, and of two
// requests of a buyer, or with a key, the later waits for the next group.
func TestLineGroups(t *testing.T) {
	req := func(op uint64, item, buyer string) BuyRequest { return BuyRequest{op, item, buyer} }
	for name, c := range map[string]struct {
		requests []BuyRequest
		want     [][]uint64
	}{
		"none":      {nil, nil},
		"strangers": {[]BuyRequest{req(1, "x", "a"), req(2, "x", "b")}, [][]uint64{{1, 2}}},
		"double click": {[]BuyRequest{req(1, "x", "a"), req(2, "x", "b"), req(1, "x", "a")},
			[][]uint64{{1, 2, 1}}},
		"a second unit": {[]BuyRequest{req(1, "x", "a"), req(2, "x", "a"), req(3, "x", "b")},
			[][]uint64{{1, 3}, {2}}},
		"another's key": {[]BuyRequest{req(1, "x", "a"), req(1, "x", "b"), req(3, "x", "b")},
			[][]uint64{{1}, {1}, {3}}},
		"two items": {[]BuyRequest{req(1, "x", "a"), req(2, "y", "a"), req(3, "x", "b")},
			[][]uint64{{1, 3}, {2}}},
		"one key for two items": {[]BuyRequest{req(1, "x", "a"), req(1, "y", "a")},
			[][]uint64{{1}, {1}}},
		"click, another, click": {[]BuyRequest{req(1, "x", "a"), req(2, "x", "a"), req(1, "x", "a")},
			[][]uint64{{1}, {2}, {1}}},
	} {
		var tickets []inLine
		for i, r := range c.requests {
			tickets = append(tickets, inLine{ticket{BuyRequest: r}, int64(i)})
		}
		var got [][]uint64
		for _, group := range groups(tickets) {
			var ops []uint64
			for _, t := range group {
				ops = append(ops, t.OpID)
			}
			got = append(got, ops)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// TestLineStatuses: each status is one outcome, and only refusals refuse.
func TestLineStatuses(t *testing.T) {
	seen := map[error]bool{}
	result := func(status string) error {
		_, err := receipt{Status: status}.result()
		return err
	}
	for status := range refusals {
		err := result(status)
		if !errors.Is(err, sut.ErrRefused) || seen[err] {
			t.Errorf("%s: got %v", status, err)
		}
		seen[err] = true
	}
	if err := result(answerOrder); err != nil {
		t.Error(err)
	}
	for _, status := range []string{answerDecided, "no such status"} {
		if err := result(status); err == nil || errors.Is(err, sut.ErrRefused) {
			t.Errorf("%s: got %v", status, err)
		}
	}
}

// FuzzLineRecords: what decodes encodes to what decodes to the same.
func FuzzLineRecords(f *testing.F) {
	f.Add([]byte(`{"op_id":1,"item":"item-1","buyer":"ann","from":"x","desk":3,"number":7}`))
	f.Add([]byte(`{"from":"x","number":7,"line":1,"offset":5,"status":"order","order":{"order":"1"}}`))
	f.Add([]byte(`{"desk":16}`))
	f.Add([]byte(`{"desk":-1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		decodesAgain(t, data, decodeTicket)
		decodesAgain(t, data, decodeReceipt)
	})
}

// decodesAgain encodes what was decoded and decodes it once more.
func decodesAgain[T comparable](t *testing.T, data []byte, decode func([]byte) (T, error)) {
	first, err := decode(data)
	if err != nil {
		return
	}
	text, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := decode(text); err != nil || second != first {
		t.Errorf("%s became %s, %v", data, text, err)
	}
}
