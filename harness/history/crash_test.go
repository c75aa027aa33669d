package history_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stampede/harness/childtest"
	"stampede/harness/history"
)

// crashPath is the variable by which a test runs its own binary as a process
// that records for ever; its value is the history's path.
const crashPath = "STAMPEDE_TEST_RECORD_FOREVER"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashPath); path != "" {
		if err := recordForever(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

const crashWorkers = 3

// recordForever appends one record by a worker that is idle afterwards, says
// "idle" once it was written, and then appends by several workers without end,
// saying how many were written. Seq is the worker's number in the high half
// and its count from 0 in the low one.
func recordForever(path string) error {
	w, err := history.Create(path, history.Header{Variant: "crash"})
	if err != nil {
		return err
	}
	idle := ok(crashWorkers << 32)
	w.Shard().Append(&idle)
	for w.Written() == 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("idle")
	var workers sync.WaitGroup
	for worker := range uint64(crashWorkers) {
		shard := w.Shard()
		workers.Go(func() {
			for n := uint64(0); w.Err() == nil; n++ {
				r := ok(worker<<32 | n)
				shard.Append(&r)
				if n%1000 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	for w.Err() == nil {
		fmt.Println(w.Written())
		time.Sleep(time.Millisecond)
	}
	workers.Wait()
	return w.Close()
}

// TestKilledHistoryReadsUpToTheLastFlush kills a recording process and finds
// everything that was flushed, in whole records without a gap, the single
// record of an idle worker included.
func TestKilledHistoryReadsUpToTheLastFlush(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.bin")
	flushed := killWhileRecording(t, path, 50_000)
	f := open(t, path)
	if f.Complete() {
		t.Error("the history of a killed process is complete")
	}
	var next [crashWorkers + 1]uint64
	total := uint64(0)
	for _, r := range read(t, f) {
		worker, n := r.Seq>>32, r.Seq&(1<<32-1)
		if n != next[worker] {
			t.Fatalf("worker %d: record %d follows %d", worker, n, next[worker])
		}
		if want := ok(r.Seq); !equal([]history.Record{r}, []history.Record{want}) {
			t.Fatalf("record %d is %+v, want %+v", r.Seq, r, want)
		}
		next[worker]++
		total++
	}
	if total < flushed {
		t.Errorf("read %d records, but %d had been flushed before the kill", total, flushed)
	}
	if next[crashWorkers] != 1 {
		t.Error("the record of the idle worker is missing")
	}
	if _, err := history.Validate(f); err == nil {
		t.Error("a history that was cut short is valid")
	}
}

// killWhileRecording runs recordForever until it has flushed enough records,
// kills it and returns how many it had flushed by its last word.
func killWhileRecording(t *testing.T, path string, enough uint64) (flushed uint64) {
	t.Helper()
	recorder, printed := childtest.Start(t, crashPath, path)
	idle := false
	for lines := bufio.NewScanner(printed); lines.Scan(); {
		n, err := strconv.ParseUint(lines.Text(), 10, 64)
		idle = idle || strings.TrimSpace(lines.Text()) == "idle"
		if err == nil && n >= enough {
			flushed = n
			break
		}
	}
	if err := recorder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	err := recorder.Wait()
	if flushed == 0 || !idle {
		t.Fatalf("the process ended before it had flushed enough: %v", err)
	}
	return flushed
}
