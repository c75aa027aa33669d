package measure_test

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"

	"stampede/harness/env/processes"
	"stampede/harness/history"
	"stampede/harness/measure"
	"stampede/harness/sut"
)

// began is when the logs of these tests began.
var began = time.Date(2026, 11, 22, 9, 30, 0, 0, time.UTC)

// spread is four seconds of operations, one a millisecond: the n-th takes n
// microseconds, but every fifth of the third second is dropped and every fifth
// of the fourth never ends.
func spread() records {
	var all records
	for i := range 4000 {
		at := time.Duration(i) * ms
		rec := op("buy", history.OK, at, at, at+time.Duration(i+1)*time.Microsecond)
		switch {
		case i%5 == 0 && i/1000 == 2:
			rec = op("buy", history.Dropped, at, history.Never, history.Never)
		case i%5 == 0 && i/1000 == 3:
			rec = op("buy", history.Unknown, at, at, history.Never)
		}
		all = append(all, rec)
	}
	return all
}

func logOf(t testing.TB, h history.History, kind string) string {
	t.Helper()
	res, err := measure.Summarise(h, measure.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := res.WriteLog(&out, kind, began); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// intervals reads a log with the library's own reader.
func intervals(t interface{ Fatal(...any) }, log string) (all []*hdrhistogram.Histogram) {
	reader := hdrhistogram.NewHistogramLogReader(strings.NewReader(log))
	for {
		h, err := reader.NextIntervalHistogram()
		if err != nil {
			t.Fatal(err)
		}
		if h == nil {
			return all
		}
		all = append(all, h)
	}
}

func TestLogHasAHistogramForEachSecond(t *testing.T) {
	all := intervals(t, logOf(t, spread(), "buy"))
	if len(all) != 4 {
		t.Fatalf("%d intervals, want 4", len(all))
	}
	for i, h := range all {
		start := began.Add(time.Duration(i) * time.Second).UnixMilli()
		if h.TotalCount() != 1000 || h.StartTimeMs() != start || h.EndTimeMs() != start+1000 {
			t.Errorf("interval %d: %d operations from %d to %d, want 1000 from %d", i, h.TotalCount(),
				h.StartTimeMs(), h.EndTimeMs(), start)
		}
		median := float64(h.ValueAtQuantile(50))
		want := (float64(i) + .5) * 1e6
		if i >= 2 { // the 500th of 1000 is the 500th of the 800 that ended
			want = (float64(i) + .625) * 1e6
		}
		if math.Abs(median/want-1) > .02 {
			t.Errorf("interval %d: the median is %g ns, want about %g", i, median, want)
		}
		if endless := h.ValueAtQuantile(90) > int64(23*time.Hour); endless != (i >= 2) {
			t.Errorf("interval %d: p90 is %d ns", i, h.ValueAtQuantile(90))
		}
	}
}

func TestLogErrors(t *testing.T) {
	res, err := measure.Summarise(spread(), measure.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := res.WriteLog(&bytes.Buffer{}, "sell", began); err == nil {
		t.Error("a log of what never happened")
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close()
	if err := res.WriteLog(full, "buy", began); err == nil {
		t.Error("a full disk was not noticed")
	}
}

// TestLogLosesNothing: whatever was recorded, the intervals together have every
// operation, and as many as never ended have the highest value.
func TestLogLosesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var all records
		endless := 0
		for range rapid.IntRange(1, 200).Draw(rt, "operations") {
			at := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(rt, "due"))
			if rapid.Bool().Draw(rt, "ends") {
				all = append(all, op("buy", history.OK, at, at,
					at+time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(rt, "takes"))))
				continue
			}
			endless++
			all = append(all, op("buy", history.Dropped, at, history.Never, history.Never))
		}
		var count, highest int64
		for _, h := range intervals(rt, logOf(t, all, "buy")) {
			count += h.TotalCount()
			for _, bar := range h.Distribution() {
				if bar.To > int64(23*time.Hour) {
					highest += bar.Count
				}
			}
		}
		if count != int64(len(all)) || highest != int64(endless) {
			rt.Fatalf("%d operations, %d without an end; want %d and %d", count, highest, len(all), endless)
		}
	})
}

// TestLogIsReadByTheOriginal: HdrHistogram's own HistogramLogProcessor, which is
// among the jars of Kafka, makes percentiles of a log.
func TestLogIsReadByTheOriginal(t *testing.T) {
	kafka, err := processes.Find(t.Context(), sut.Kafka)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	jars, err := filepath.Glob(filepath.Join(kafka.Path, "HdrHistogram-*.jar"))
	if err != nil || len(jars) != 1 {
		t.Fatalf("HdrHistogram among the jars of Kafka: %v, %v", jars, err)
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "buy.hlog"), filepath.Join(dir, "out")
	if err := os.WriteFile(in, []byte(logOf(t, spread(), "buy")), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), kafka.Java, "-cp", jars[0],
		"org.HdrHistogram.HistogramLogProcessor", "-i", in, "-o", out)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	text, err := os.ReadFile(out + ".hgrm")
	if err != nil {
		t.Fatal(err)
	}
	checkOriginal(t, string(text))
}

// checkOriginal holds the percentiles of HdrHistogram's own tool, in milliseconds,
// against what spread has: 3,600 that took 1 µs to 4 ms, and 400 without an end.
func checkOriginal(t *testing.T, text string) {
	t.Helper()
	rows, total := 0, int64(0)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 3 || strings.HasPrefix(line, "#") || fields[0] == "Value" {
			continue
		}
		value, err := strconv.ParseFloat(fields[0], 64)
		share, err2 := strconv.ParseFloat(fields[1], 64)
		count, err3 := strconv.ParseInt(fields[2], 10, 64)
		if err != nil || err2 != nil || err3 != nil {
			t.Fatalf("row %q", line)
		}
		rows, total = rows+1, count
		if share == .5 && math.Abs(value/2-1) > .02 {
			t.Errorf("the median is %g ms, want about 2", value)
		}
		day := float64(24*time.Hour) / 1e6
		if share > .9001 && math.Abs(value/day-1) > .02 {
			t.Errorf("%g %% took %g ms, want 24 h", share*100, value)
		}
	}
	if rows < 20 || total != 4000 {
		t.Errorf("%d rows, %d operations\n%s", rows, total, text)
	}
}
