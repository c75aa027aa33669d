package reports_test

import (
	"regexp"
	"strings"
	"testing"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/reports/answer"
)

// section cuts a page's section out.
func section(t *testing.T, page, id string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, `<section id="`+id+`"`)
	if !ok {
		t.Fatalf("the page has no section %s", id)
	}
	text, _, _ := strings.Cut(rest, "</section>")
	return text
}

// TestAGapIsNoLine: where Redis said nothing, its line is broken in two.
func TestAGapIsNoLine(t *testing.T) {
	text := section(t, sceneOf(t, "three").page(t), "stores")
	_, redis, _ := strings.Cut(text, "<b>Redis</b>")
	redis, _, _ = strings.Cut(redis, "</svg>")
	_, redis, _ = strings.Cut(redis, "<desc")
	lines := regexp.MustCompile(`d="([^"]*)" fill="none"[^>]*class="k0"`).FindAllStringSubmatch(redis,
		-1)
	if len(lines) != 2 {
		t.Fatalf("%d lines, want one of commands and one of memory", len(lines))
	}
	for _, line := range lines {
		if strings.Count(line[1], "M") != 2 {
			t.Errorf("the line is %q, want two parts", line[1])
		}
	}
}

func TestAPageWithoutTelemetry(t *testing.T) {
	d := sceneOf(t, "one").data(t)
	d.Telemetry = nil
	page := render(t, d)
	if strings.Contains(page, `id="stores"`) || strings.Contains(page, `href="#stores"`) {
		t.Error("a run in which nobody was asked has a section about stores")
	}
}

// TestTheRepeatThatBrokeIsDrawn: of a design that held at first, what is drawn over time is
// the repeat that broke, and says so; without numbers of that one it is the first.
func TestTheRepeatThatBrokeIsDrawn(t *testing.T) {
	d := fixture{designs: flashSale()[2:4], repeats: 3, ops: 1000}.build(t)
	v := &d.Summary.Variants[1]
	late := check.Verdict{Invariant: "no-oversell", Status: check.Broken, Count: 1,
		Violations: []check.Violation{{Text: "item-1 has 101 of 100 units sold", AtNS: 7e9}}}
	v.Invariants, v.Repeats[2].Invariants = []check.Verdict{late}, []check.Verdict{late}
	v.Verdict, d.Summary.Verdict.Overall = rundir.Fail, rundir.Fail

	page := render(t, d)
	over, stores := section(t, page, "time"), section(t, page, "stores")
	for what, text := range map[string]string{"over time": over, "of stores": stores} {
		if n := strings.Count(text, `<span class="tag">repeat 3</span></h3>`); n == 0 ||
			n != strings.Count(text, "<figure")/2 {
			t.Errorf("%s %d charts say that they are of repeat 3", what, n)
		}
		if !strings.Contains(text, ">Repeat 3: ") || !strings.Contains(text, ">✗</text>") {
			t.Errorf("%s repeat 3 or its violation is not drawn", what)
		}
	}
	if want := "of B (repeat 3) the first in which something broke"; !strings.Contains(over, want) {
		t.Errorf("the section does not say %q", want)
	}
	delete(d.Timelines, answer.RepeatRef{Variant: v.Name, Repeat: 2})
	if page = render(t, d); strings.Contains(page, `<span class="tag">repeat 3`) {
		t.Error("what has no timeline is drawn")
	}
}
