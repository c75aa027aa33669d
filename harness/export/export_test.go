package export_test

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"io"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"stampede/harness/export"
	"stampede/harness/history"
)

// records are one of each kind: with and without reply, times, text and bytes.
func records() []history.Record {
	never := history.Never
	return []history.Record{
		{Seq: 0, Op: history.Op{ID: 1 << 63, Kind: "buy", Key: "item,1", Client: "ann \"a\"", Arg: -7,
			Body: []byte(`{"units":1}`)}, Outcome: history.OK,
			Reply:    history.Reply{Key: "order\n1", Value: -3, Body: []byte{0xff, 0}},
			Intended: time.Millisecond, Start: 2 * time.Millisecond, End: 3 * time.Millisecond},
		{Seq: 1, Op: history.Op{ID: 2, Kind: "buy", Body: []byte("a\r\nb")}, Err: "timeout: ünknown",
			Intended: 5, Start: 7, End: never},
		{Seq: 2, Op: history.Op{ID: 3, Kind: "stock"}, Outcome: history.Dropped,
			Intended: time.Second, Start: never, End: never},
		{Seq: 3, Op: history.Op{ID: 4, Kind: "stock"}, Outcome: history.Refused, Err: "sold_out",
			Intended: 0, Start: 0, End: 1},
	}
}

// recordOf is the inverse of RowOf.
func recordOf(t *testing.T, r export.Row) history.Record {
	t.Helper()
	var outcome history.Outcome
	if err := outcome.UnmarshalText([]byte(r.Outcome)); err != nil {
		t.Fatal(err)
	}
	or := func(ns *int64) time.Duration {
		if ns == nil {
			return history.Never
		}
		return time.Duration(*ns)
	}
	rec := history.Record{Seq: r.Seq, Op: history.Op{ID: r.ID, Kind: r.Kind, Key: r.Key,
		Client: r.Client, Arg: r.Arg, Body: r.Body}, Outcome: outcome, Err: r.Err,
		Reply:    history.Reply{Key: r.ReplyKey, Value: r.ReplyValue, Body: r.ReplyBody},
		Intended: time.Duration(r.IntendedNS), Start: or(r.StartNS), End: or(r.EndNS)}
	if len(rec.Op.Body) == 0 {
		rec.Op.Body = nil
	}
	if len(rec.Reply.Body) == 0 {
		rec.Reply.Body = nil
	}
	return rec
}

// written is what a format makes of the records, twice: as two repeats.
func written(t *testing.T, format func(io.Writer) (export.Table, error)) []byte {
	t.Helper()
	var out bytes.Buffer
	table, err := format(&out)
	if err != nil {
		t.Fatal(err)
	}
	for repeat := 1; repeat <= 2; repeat++ {
		for _, rec := range records() {
			if err := table.Add(export.RowOf("redis_lua", repeat, rec)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// compare holds rows that were read against what was written.
func compare(t *testing.T, rows []export.Row) {
	t.Helper()
	want := records()
	if len(rows) != 2*len(want) {
		t.Fatalf("%d rows, want %d", len(rows), 2*len(want))
	}
	for i, row := range rows {
		if row.Design != "redis_lua" || int(row.Repeat) != 1+i/len(want) {
			t.Errorf("row %d is of %s, repeat %d", i, row.Design, row.Repeat)
		}
		if got := recordOf(t, row); !reflect.DeepEqual(got, want[i%len(want)]) {
			t.Errorf("row %d: %+v, want %+v", i, got, want[i%len(want)])
		}
	}
}

func TestParquetKeepsEveryRecord(t *testing.T) {
	data := written(t, export.Parquet)
	rows, err := parquet.Read[export.Row](bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	compare(t, rows)
}

func TestCSVKeepsEveryRecord(t *testing.T) {
	lines, err := csv.NewReader(bytes.NewReader(written(t, export.CSV))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	rows := []export.Row{}
	for _, line := range lines[1:] {
		cell := map[string]string{}
		for i, name := range lines[0] {
			cell[name] = line[i]
		}
		rows = append(rows, rowOf(t, cell))
	}
	compare(t, rows)
}

// rowOf reads a line of CSV.
func rowOf(t *testing.T, cell map[string]string) export.Row {
	t.Helper()
	number := func(name string) *int64 {
		if cell[name] == "" {
			return nil
		}
		n, err := strconv.ParseInt(cell[name], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return &n
	}
	unsigned := func(name string) uint64 {
		n, err := strconv.ParseUint(cell[name], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	body := func(name string) []byte {
		coded, err := base64.StdEncoding.DecodeString(cell[name+"_base64"])
		if err != nil {
			t.Fatal(err)
		}
		return append([]byte(cell[name]), coded...)
	}
	return export.Row{Design: cell["design"], Repeat: int32(*number("repeat")),
		Seq: unsigned("seq"), ID: unsigned("id"), Kind: cell["kind"], Key: cell["key"],
		Client: cell["client"], Arg: *number("arg"), Body: body("body"), Outcome: cell["outcome"],
		Err: cell["err"], ReplyKey: cell["reply_key"], ReplyValue: *number("reply_value"),
		ReplyBody: body("reply_body"), IntendedNS: *number("intended_ns"),
		StartNS: number("start_ns"), EndNS: number("end_ns")}
}
