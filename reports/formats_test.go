package reports_test

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"

	"stampede/harness/check"
	"stampede/harness/measure"
	"stampede/harness/rundir"
	"stampede/reports"
)

func write(t testing.TB, f func(io.Writer, reports.Data) error, d reports.Data) string {
	t.Helper()
	var out bytes.Buffer
	if err := f(&out, d); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// suites is what a CI system reads from JUnit XML.
type suites struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
	Errors   int `xml:"errors,attr"`
	Skipped  int `xml:"skipped,attr"`
	Suites   []struct {
		Name  string `xml:"name,attr"`
		Cases []struct {
			Name    string    `xml:"name,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func TestJUnitCounts(t *testing.T) {
	for _, s := range scenes() {
		text := write(t, reports.JUnit, s.data(t))
		var got suites
		if err := xml.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		var count suites
		for _, suite := range got.Suites {
			names := map[string]bool{}
			for _, c := range suite.Cases {
				if names[c.Name] {
					t.Errorf("%s: %s: two cases %q", s.name, suite.Name, c.Name)
				}
				names[c.Name] = true
				count.Tests++
				count.Failures += present(c.Failure)
				count.Errors += present(c.Error)
				count.Skipped += present(c.Skipped)
			}
		}
		if got.Tests != count.Tests || got.Failures != count.Failures || got.Errors != count.Errors ||
			got.Skipped != count.Skipped {
			t.Errorf("%s: the root counts %d %d %d %d, the cases %d %d %d %d", s.name, got.Tests,
				got.Failures, got.Errors, got.Skipped, count.Tests, count.Failures, count.Errors, count.Skipped)
		}
	}
}

func present(p *struct{}) int {
	if p == nil {
		return 0
	}
	return 1
}

// CI and the exit code must agree: a run that passes has neither failures nor
// errors, a run that fails has a failure.
func TestJUnitAgreesWithTheVerdict(t *testing.T) {
	for name, want := range map[string][2]bool{ // failures, errors
		"three": {}, "latent": {}, "all_failed": {true, false}, "invalid": {false, true},
		"undecided": {false, true},
	} {
		var got suites
		text := write(t, reports.JUnit, sceneOf(t, name).data(t))
		if err := xml.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if (got.Failures > 0) != want[0] || (got.Errors > 0) != want[1] {
			t.Errorf("%s: %d failures, %d errors", name, got.Failures, got.Errors)
		}
	}
}

func TestMarkdownStaysUnderTheLimit(t *testing.T) {
	d := allFailed(t)
	for v := range d.Summary.Variants {
		d.Summary.Variants[v].Reasons = nil
	}
	var many []rundir.Variant
	for i := range 400 {
		v := d.Summary.Variants[0]
		v.Name = fmt.Sprintf("design-%d", i)
		many = append(many, v)
	}
	d.Summary.Variants = many
	text := write(t, reports.Markdown, d)
	if len(text) > 900_000 || !strings.Contains(text, "*Cut: ") ||
		!strings.HasPrefix(text, "## ✗ FAIL") {
		t.Errorf("%d bytes, starts %q", len(text), text[:40])
	}
	small := write(t, reports.Markdown, sceneOf(t, "three").data(t))
	if strings.Contains(small, "*Cut: ") {
		t.Error("a small summary was cut")
	}
}

// TestLossesAreAlwaysShown: what a design may lose is told also when it lost
// nothing.
func TestLossesAreAlwaysShown(t *testing.T) {
	d := sceneOf(t, "one").data(t)
	for name, f := range map[string]func(io.Writer, reports.Data) error{
		"HTML": reports.HTML, "Markdown": reports.Markdown,
	} {
		if strings.Contains(write(t, f, d), "Accepted losses") {
			t.Errorf("%s: no loss is declared, and it tells of some", name)
		}
	}
	// The scene is everybody's.
	d.Summary.Variants = slices.Clone(d.Summary.Variants)
	v := &d.Summary.Variants[0]
	v.Invariants = slices.Clone(v.Invariants)
	v.Invariants[0].Accepted = []check.AcceptedLoss{
		{What: "late likes", Why: "AOF is synced every second", Bound: 77}}
	for name, f := range map[string]func(io.Writer, reports.Data) error{
		"HTML": reports.HTML, "Markdown": reports.Markdown,
	} {
		text := write(t, f, d)
		for _, want := range []string{"Accepted losses", "late likes", "AOF is synced", "77"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q", name, want)
			}
		}
	}
}

func TestMarkdownHostileText(t *testing.T) {
	text := write(t, reports.Markdown, sceneOf(t, "hostile").data(t))
	outside := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(text, "")
	for _, bad := range []string{"<script", "<img", "\x1b", "\u202e"} {
		if strings.Contains(outside, bad) {
			t.Errorf("contains %q", bad)
		}
	}
	if link := regexp.MustCompile(`[^\\]\]\(`).FindString(outside); link != "" {
		t.Errorf("contains a link: %q", link)
	}
	for line := range strings.Lines(outside) {
		if strings.HasPrefix(line, "| ") && !strings.HasSuffix(strings.TrimSpace(line), "|") {
			t.Errorf("a broken row: %q", line)
		}
	}
}

func TestTextLastLine(t *testing.T) {
	var out bytes.Buffer
	o := reports.TextOptions{Report: "runs/a/report.html", Exit: 1}
	if err := reports.Text(&out, sceneOf(t, "all_failed").data(t), o); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	want := "RESULT flash-sale-100k FAIL violations=111 sla=2/4 report=runs/a/report.html exit=1"
	if got := lines[len(lines)-1]; got != want {
		t.Errorf("last line %q, want %q", got, want)
	}
	if got := lines[len(lines)-2]; got != "0 passed, 2 failed" {
		t.Errorf("line before %q", got)
	}
}

func TestTextColour(t *testing.T) {
	render := func(colour bool) string {
		var out bytes.Buffer
		o := reports.TextOptions{Colour: colour}
		if err := reports.Text(&out, sceneOf(t, "hostile").data(t), o); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if strings.Contains(render(false), "\x1b") {
		t.Error("an escape without colour")
	}
	escapes := regexp.MustCompile("\x1b\\[(1;3[123]|0)m")
	if rest := escapes.ReplaceAllString(render(true), ""); rest != render(false) {
		t.Error("colour changes more than the colour")
	}
}

var sample = regexp.MustCompile(
	`^([a-z_]+)\{([a-z_]+="([^"\\]|\\.)*",?)+\} ([-+]?[0-9.e+-]+|\+Inf)$`)

// The parts of OpenMetrics 1.0 that parsers trip over: families are declared
// once and before their samples, not interleaved, and the text ends with EOF.
func TestMetricsFormat(t *testing.T) {
	for _, s := range scenes() {
		text := write(t, reports.Metrics, s.data(t))
		if !strings.HasSuffix(text, "# EOF\n") {
			t.Errorf("%s: no EOF", s.name)
		}
		declared := map[string]bool{}
		current := ""
		for line := range strings.Lines(strings.TrimSuffix(text, "# EOF\n")) {
			line = strings.TrimSuffix(line, "\n")
			if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
				current = strings.Fields(name)[0]
				if declared[current] {
					t.Errorf("%s: %s declared twice", s.name, current)
				}
				declared[current] = true
				continue
			}
			if strings.HasPrefix(line, "# ") {
				continue
			}
			m := sample.FindStringSubmatch(line)
			if m == nil || !strings.HasPrefix(m[1], current) {
				t.Errorf("%s: in family %s: %q", s.name, current, line)
			}
		}
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
	if err := reports.HGRM(&out, op); err != nil {
		t.Fatal(err)
	}
	rows := readHGRM(t, out.String())
	if len(rows) < 40 || !math.IsInf(rows[len(rows)-1].value, 1) {
		t.Errorf("%d rows, the last %+v; a fifth was dropped", len(rows), rows[len(rows)-1])
	}
	if err := reports.HGRM(fullDisk{}, op); err == nil {
		t.Error("a full disk was not noticed")
	}
	op.HDR = "nonsense"
	if err := reports.HGRM(io.Discard, op); err == nil {
		t.Error("a damaged histogram was accepted")
	}
	if err := reports.HGRM(io.Discard, rundir.Operation{Kind: "buy"}); err == nil {
		t.Error("no histogram was accepted")
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestHLOG: HdrHistogram's own reader gets every repeat's histogram back.
func TestHLOG(t *testing.T) {
	v := fixture{designs: flashSale()[4:5], repeats: 3, ops: 1000}.build(t).Summary.Variants[0]
	var out bytes.Buffer
	if err := reports.HLOG(&out, v.Repeats, "buy"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "#[Repeat 1: 2 operations were dropped or never ended]") {
		t.Errorf("what was dropped is not told:\n%s", out.String()[:200])
	}
	reader := hdrhistogram.NewHistogramLogReader(bytes.NewReader(out.Bytes()))
	for i := range 3 {
		h, err := reader.NextIntervalHistogram()
		if err != nil || h == nil {
			t.Fatalf("repeat %d: %v", i+1, err)
		}
		if op := v.Repeats[i].Operations[0]; h.TotalCount() != op.Load.Started ||
			h.Tag() != fmt.Sprintf("repeat-%d", i+1) {
			t.Errorf("repeat %d: %s has %d of %d", i+1, h.Tag(), h.TotalCount(), op.Load.Started)
		}
	}
	if h, _ := reader.NextIntervalHistogram(); h != nil {
		t.Error("there are more than three")
	}
	v.Repeats[1].Operations[0].HDR = "%%%"
	if err := reports.HLOG(io.Discard, v.Repeats, "buy"); err == nil {
		t.Error("a broken histogram was written")
	}
	if err := reports.HLOG(fullDisk{}, v.Repeats, "stock"); err == nil {
		t.Error("a full disk was not noticed")
	}
}

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
		if err := reports.HGRM(&out, op); err != nil {
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
