package reports_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/check"
	"stampede/harness/measure"
	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/export"
	"stampede/reports/page"
	"stampede/reports/words"
)

func write(t testing.TB, f func(io.Writer, answer.Data) error, d answer.Data) string {
	t.Helper()
	var out bytes.Buffer
	if err := f(&out, d); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestLossesAreAlwaysShown: what a design may lose is told also when it lost
// nothing.
func TestLossesAreAlwaysShown(t *testing.T) {
	d := fixture{designs: flashSale()[:1], repeats: 1, ops: 1000}.build(t)
	forms := []func(io.Writer, answer.Data) error{page.HTML, export.Markdown}
	for i, f := range forms {
		if strings.Contains(write(t, f, d), "Accepted losses") {
			t.Errorf("form %d: no loss is declared, and it tells of some", i)
		}
	}
	d.Summary.Variants[0].Invariants[0].Accepted = []check.AcceptedLoss{
		{What: "late likes", Why: "AOF is synced every second", Bound: 77}}
	for i, f := range forms {
		text := write(t, f, d)
		for _, want := range []string{"Accepted losses", "late likes", "AOF is synced", "77"} {
			if !strings.Contains(text, want) {
				t.Errorf("form %d does not say %q", i, want)
			}
		}
	}
}

func TestTextColour(t *testing.T) {
	render := func(colour bool) string {
		var out bytes.Buffer
		o := words.TextOptions{Colour: colour}
		if err := export.Text(&out, sceneOf(t, "hostile").data(t), o); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if strings.Contains(render(false), "\x1b") {
		t.Error("an escape without colour")
	}
	escapes := regexp.MustCompile("\x1b\\[(1;3[1235]|0)m")
	if rest := escapes.ReplaceAllString(render(true), ""); rest != render(false) {
		t.Error("colour changes more than the colour")
	}
}

// hgrmRow is one row of a percentile file.
type hgrmRow struct {
	value, share float64
	count        int64
}

// readHGRM reads a percentile file as HdrHistogram's plotter does: four
// columns, percentiles that rise to 1, values and counts that do not fall.
func readHGRM(t testingT, text string) (rows []hgrmRow) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(text))
	last := hgrmRow{share: -1}
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 4 || fields[0] == "Value" || strings.HasPrefix(fields[0], "#") {
			continue
		}
		value, err := strconv.ParseFloat(fields[0], 64)
		share, err2 := strconv.ParseFloat(fields[1], 64)
		count, err3 := strconv.ParseInt(fields[2], 10, 64)
		row := hgrmRow{value, share, count}
		if err := errors.Join(err, err2, err3); err != nil || row.value < last.value ||
			row.share <= last.share || row.count < last.count {
			t.Fatalf("row %q after %+v: %v", lines.Text(), last, err)
		}
		rows, last = append(rows, row), row
	}
	return rows
}

// testingT is what a test and a property have in common.
type testingT interface {
	Helper()
	Fatalf(format string, args ...any)
}

func TestHGRM(t *testing.T) {
	d := fixture{designs: flashSale()[11:12], repeats: 1, ops: 5000}.build(t)
	op := d.Summary.Variants[0].Operations[0]
	var out bytes.Buffer
	if err := answer.HGRM(&out, op); err != nil {
		t.Fatal(err)
	}
	rows := readHGRM(t, out.String())
	if len(rows) < 40 || !math.IsInf(rows[len(rows)-1].value, 1) {
		t.Errorf("%d rows, the last %+v; a fifth was dropped", len(rows), rows[len(rows)-1])
	}
	if err := answer.HGRM(fullDisk{}, op); err == nil {
		t.Error("a full disk was not noticed")
	}
	op.HDR = "nonsense"
	if err := answer.HGRM(io.Discard, op); err == nil {
		t.Error("a damaged histogram was accepted")
	}
	if err := answer.HGRM(io.Discard, rundir.Operation{Kind: "buy"}); err == nil {
		t.Error("no histogram was accepted")
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestHGRMCountsWhatNeverEnded: whatever was measured, the last row stands for
// every operation, and it and the rows above the finite share are Infinity.
func TestHGRMCountsWhatNeverEnded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := measure.NewHistogram()
		for _, v := range rapid.SliceOfN(rapid.Int64Range(0, 1e11), 1, 300).Draw(t, "values") {
			h.Record(time.Duration(v))
		}
		finite := h.Count()
		for range rapid.IntRange(0, 20).Draw(t, "infinite") {
			h.RecordInfinite()
		}
		encoded, err := h.Encode()
		if err != nil {
			t.Fatal(err)
		}
		op := rundir.Operation{Kind: "buy", HDR: encoded}
		op.Latency.Response.Count = h.Count()
		var out bytes.Buffer
		if err := answer.HGRM(&out, op); err != nil {
			t.Fatal(err)
		}
		rows := readHGRM(t, out.String())
		if last := rows[len(rows)-1]; last.share != 1 || last.count != h.Count() {
			t.Fatalf("the last row is %+v, there are %d", last, h.Count())
		}
		for _, row := range rows {
			if math.IsInf(row.value, 1) != (row.count > finite) {
				t.Fatalf("row %+v, and %d of %d ended", row, finite, h.Count())
			}
		}
	})
}
