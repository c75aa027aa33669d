package suttest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"stampede/harness/history"
)

// answered are three reads, of which two were answered.
func answered() []history.Record {
	return []history.Record{
		{Op: history.Op{ID: 1, Kind: "read"}, Outcome: history.OK,
			Reply: history.Reply{Key: "k", Value: 9,
				Body: []byte(`{"version":18446744073709551615,"ok":true,"of":{"name":"a"},"list":[1,2],"no":[]}`)}},
		{Op: history.Op{ID: 2, Kind: "read"}, Outcome: history.OK,
			Reply: history.Reply{Key: "l", Value: 3,
				Body: []byte(`{"version":3,"ok":true,"of":{"name":"b"},"list":[1]}`)}},
		{Op: history.Op{ID: 3, Kind: "read"}, Outcome: history.Refused}}
}

// TestInAnswers: each leaf is changed in each way, in one answer and nowhere else; a value that is
// in the body too is not one.
func TestInAnswers(t *testing.T) {
	want := map[string]string{
		"mistake key": `"l"`, "raise value": `"Value":10`, "lower value": `"Value":8`,
		"raise version": `:18446747673709551615`, "lower version": `:18446740473709551615`,
		"flip ok": `"ok":false`, "mistake of.name": `"name":"b"`, "raise list": `[2,2]`,
		"lower list": `[0,2]`, "drop list": `"list":[2]`, "double list": `"list":[1,1,2]`}
	first := func(int) int { return 0 }
	for _, c := range inAnswers(answered()[:1]) {
		name, records := strings.TrimSuffix(c.name, " in answers to read"), answered()
		done := c.do(records, reflect.Value{}, first)
		r := &records[0].Reply
		got := fmt.Sprintf(`"%s" "Value":%d %s`, r.Key, r.Value, r.Body)
		if text := want[name]; text == "" || !done || !strings.Contains(got, text) {
			t.Errorf("%s makes %s of an answer, want %s", c.name, got, text)
		}
		if delete(want, name); !reflect.DeepEqual(records[1:], answered()[1:]) {
			t.Errorf("%s makes %+v of other answers", c.name, records[1:])
		}
	}
	if len(want) > 0 {
		t.Errorf("no corruptions %v", want)
	}
}
