package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"stampede/harness/export"
	"stampede/harness/history"
	"stampede/harness/rundir"
)

// recordedRun stores a run of two designs, each with two repeats, and returns the folder of
// the runs and what was recorded of each repeat. The last repeat has no history: the run was
// interrupted.
func recordedRun(t *testing.T) (root string, recorded map[string][]history.Record) {
	t.Helper()
	root, recorded = t.TempDir(), map[string][]history.Record{}
	dir, err := rundir.Create(root, "sale", 7, time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	slots := rundir.Interleave([]string{"naive", "redis_lua"}, 2)
	for i, slot := range slots[:3] {
		w, err := history.Create(dir.File(slot.History), history.Header{})
		if err != nil {
			t.Fatal(err)
		}
		shard := w.Shard()
		name := slot.Variant + strconv.Itoa(slot.Repeat+1)
		for seq := range uint64(3 + i) {
			rec := history.Record{Seq: seq, Op: history.Op{ID: seq + 1, Kind: "buy", Key: "item-1",
				Client: "buyer-" + strconv.Itoa(i)}, Outcome: history.OK,
				Reply:    history.Reply{Key: "order", Value: int64(seq)},
				Intended: time.Millisecond, Start: 2 * time.Millisecond, End: 3 * time.Millisecond}
			if seq == 1 {
				rec.Outcome, rec.Reply, rec.End = history.Unknown, history.Reply{}, history.Never
			}
			shard.Append(&rec)
			recorded[name] = append(recorded[name], rec)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	info := rundir.RunInfo{ID: dir.ID(), Scenario: "sale", System: "flashsale", Profile: "smoke",
		Repeats: 2}
	if err := errors.Join(dir.WriteManifest(rundir.Manifest{Run: info, Slots: slots}),
		dir.Close()); err != nil {
		t.Fatal(err)
	}
	return root, recorded
}

// TestExportIsTheHistory: each format has every record of what was asked for, and no other.
func TestExportIsTheHistory(t *testing.T) {
	root, recorded := recordedRun(t)
	file := filepath.Join(t.TempDir(), "all.parquet")
	if _, stderr, code := said(t, "export", "sale", "--out", root, "-o", file); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := parquet.Read[export.Row](bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var want []export.Row
	for name, records := range recorded {
		design, repeat := name[:len(name)-1], int(name[len(name)-1]-'0')
		for _, rec := range records {
			want = append(want, export.RowOf(design, repeat, rec))
		}
	}
	text := func(rows []export.Row) []string {
		lines := []string{}
		for _, r := range rows {
			end := "never"
			if r.EndNS != nil {
				end = strconv.FormatInt(*r.EndNS, 10)
			}
			lines = append(lines, strings.Join([]string{r.Design, strconv.Itoa(int(r.Repeat)),
				strconv.FormatUint(r.ID, 10), r.Client, r.Outcome, r.ReplyKey,
				strconv.FormatInt(r.ReplyValue, 10), end}, " "))
		}
		slices.Sort(lines)
		return lines
	}
	if got, want := text(rows), text(want); !slices.Equal(got, want) {
		t.Errorf("parquet has %q, want %q", got, want)
	}
	table, _, code := said(t, "export", "sale", "--out", root, "--format", "csv",
		"--design", "naive")
	lines, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if n := len(recorded["naive1"]) + len(recorded["naive2"]); err != nil || code != exitOK ||
		len(lines) != n+1 {
		t.Errorf("csv has %d lines, %v, exit code %d; want %d records", len(lines), err, code, n)
	}
	one, _, _ := said(t, "export", "sale", "--out", root, "--design", "naive", "--repeat", "2")
	h, err := history.ReadNDJSON(strings.NewReader(one))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rec, err := range h.All() {
		if err != nil || rec.Op.Client != recorded["naive2"][0].Op.Client {
			t.Errorf("%+v, %v", rec, err)
		}
		n++
	}
	if n != len(recorded["naive2"]) {
		t.Errorf("ndjson has %d records, want %d", n, len(recorded["naive2"]))
	}
}

// TestExportRefuses what it cannot do, and says what there is.
func TestExportRefuses(t *testing.T) {
	root, _ := recordedRun(t)
	for want, args := range map[string][]string{
		"ndjson is one history, and these are 3; choose one": {},
		`did you mean "redis_lua"?`:                          {"--design", "redis_lue"},
		"has no history of that design and repeat; it has 2 repeats of naive, redis_lua": {
			"--design", "redis_lua", "--repeat", "2"},
		"expected one of ndjson, csv, parquet; did you mean \"csv\"?": {"--format", "cvs"},
		"--repeat counts from 1": {"--repeat", "-1"},
	} {
		stdout, stderr, code := said(t, append([]string{"export", "sale", "--out", root}, args...)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, %q; want %q", args, code, stderr, want)
		}
	}
}
