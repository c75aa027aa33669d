package reports_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"stampede/harness/check"
	"stampede/harness/rundir"
	"stampede/reports/answer"
	"stampede/reports/page"
)

func render(t testing.TB, d answer.Data) string {
	t.Helper()
	var out bytes.Buffer
	if err := page.HTML(&out, d); err != nil {
		t.Fatalf("HTML: %v", err)
	}
	return out.String()
}

// TestTheScenarioComesBackAsItWas: it can be copied from the page and run.
func TestTheScenarioComesBackAsItWas(t *testing.T) {
	d := sceneOf(t, "one").make(t)
	d.Scenario = "name: x\nload:\n  kinds:\n    - kind: buy\n      note: |\n        a <pre> & b\n\n" +
		"        c</pre>\td  \n\n  # end\n\tx: 1"
	page := render(t, d)
	open, end := `<pre tabindex="0" role="group" aria-label="Scenario">`, "</pre>"
	if got := html.UnescapeString(between(t, page, open, end)); got != d.Scenario {
		t.Errorf("got\n%q, want\n%q", got, d.Scenario)
	}
	d.Scenario = "a: \x1b[31m\u202e"
	if got := between(t, render(t, d), open, end); got != "a: \uFFFD[31m" {
		t.Errorf("what nobody can see is in the page: %q", got)
	}
}

// A run that failed and was interrupted has failed.
func TestVerdictWordOfAnInterruptedFailure(t *testing.T) {
	s := rundir.Summary{Verdict: rundir.Verdict{Overall: rundir.Fail}}
	s.Run.Interrupted = true
	if got := answer.VerdictWord(s); got != rundir.Fail {
		t.Errorf("got %s", got)
	}
}

// TestHTMLFigures: figures are a table with a column each, whatever their names are; without any
// there is none.
func TestHTMLFigures(t *testing.T) {
	d := sceneOf(t, "three").make(t)
	if strings.Contains(render(t, d), `id="figures"`) {
		t.Error("without figures there is a table of them")
	}
	d.Summary.Variants[0].Repeats[0].Invariants[0].Figures = []check.Figure{
		{Name: "<b>memory", Unit: "kB", Value: 28.4}}
	table := between(t, render(t, d), `id="figures"`, "</table>")
	for _, want := range []string{"&lt;b&gt;memory, kB", ">28.4<", ">–<"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table of figures has no %q: %s", want, table)
		}
	}
}

func TestHTMLIsDeterministic(t *testing.T) {
	for _, name := range []string{"three", "hostile", "faults"} {
		s := sceneOf(t, name)
		if render(t, s.make(t)) != s.page(t) {
			t.Errorf("%s: the same data gave two pages", name)
		}
	}
}

func TestHTMLKeepsItsRules(t *testing.T) {
	for _, s := range scenes() {
		keepsPolicy(t, s.name, s.page(t))
		keepsAnchors(t, s.name, s.page(t))
		if len(s.data(t).Summary.Variants) > 0 {
			keepsTables(t, s.page(t))
		}
	}
}

// keepsPolicy: everything that a strict content security policy forbids, and everything
// that would reach for the network, is absent; what it allows is what is there.
func keepsPolicy(t *testing.T, name, page string) {
	t.Helper()
	for _, tag := range tags(page) {
		if problem := forbidden(tag); problem != "" {
			t.Errorf("%s: %s", name, problem)
		}
	}
	if found := regexp.MustCompile(`(?i)url\(["']?(https?:|//|data:)`).FindString(page); found != "" {
		t.Errorf("%s: %q", name, found)
	}
	for _, element := range []string{"style", "script"} {
		body := between(t, page, "<"+element+">", "</"+element+">")
		if strings.Count(page, "<"+element) != 1 {
			t.Errorf("%s: more than one <%s>", name, element)
		}
		sum := sha256.Sum256([]byte(body))
		allowed := element + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		if !strings.Contains(page, allowed) {
			t.Errorf("%s: the policy does not allow the page's own %s", name, element)
		}
	}
}

// element is one start tag.
type element struct {
	name       string
	attributes [][2]string
}

var (
	startTag  = regexp.MustCompile(`<([a-zA-Z][^\s/>]*)((?:\s+[^\s=>"]+(?:="[^"]*")?)*)\s*/?>`)
	attribute = regexp.MustCompile(`([^\s=>"]+)(?:="([^"]*)")?`)
)

func tags(page string) (all []element) {
	for _, m := range startTag.FindAllStringSubmatch(page, -1) {
		e := element{name: strings.ToLower(m[1])}
		for _, a := range attribute.FindAllStringSubmatch(m[2], -1) {
			e.attributes = append(e.attributes, [2]string{strings.ToLower(a[1]), a[2]})
		}
		all = append(all, e)
	}
	return all
}

// forbidden says what in an element breaks the page's rules.
func forbidden(e element) string {
	if e.name == "link" {
		if len(e.attributes) == 2 && e.attributes[0] == [2]string{"rel", "icon"} &&
			strings.HasPrefix(html.UnescapeString(e.attributes[1][1]), "data:image/svg+xml,") {
			return "" // the icon in the browser's tab, which is in the page
		}
	}
	switch e.name {
	case "iframe", "object", "embed", "link", "base", "form", "img", "image", "foreignobject":
		return "element " + e.name
	}
	for _, a := range e.attributes {
		name, value := a[0], strings.ToLower(a[1])
		switch {
		case name == "style", strings.HasPrefix(name, "on"), name == "src", name == "srcset",
			name == "action", name == "formaction", name == "xlink:href":
			return fmt.Sprintf("attribute %s of %s", name, e.name)
		case name == "href" && !strings.HasPrefix(value, "#") && !strings.HasPrefix(value, "./"):
			return fmt.Sprintf("link to %q", value)
		}
	}
	return ""
}

// The test's own parser sees every tag: what it cannot read would escape it.
func TestTagsAreAllRead(t *testing.T) {
	page := sceneOf(t, "hostile").page(t)
	page = regexp.MustCompile(`(?s)<script>.*?</script>`).ReplaceAllString(page, "<script></script>")
	starts := len(regexp.MustCompile(`<[a-zA-Z]`).FindAllString(page, -1))
	if read := len(tags(page)); read != starts {
		t.Errorf("%d of %d tags read", read, starts)
	}
}

func between(t *testing.T, text, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, from)
	body, _, closed := strings.Cut(rest, to)
	if !ok || !closed {
		t.Fatalf("no %s…%s", from, to)
	}
	return body
}

// keepsAnchors: every anchor that is pointed to exists, once.
func keepsAnchors(t *testing.T, name, page string) {
	t.Helper()
	ids := map[string]int{}
	for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		ids[m[1]]++
		if ids[m[1]] > 1 {
			t.Errorf("%s: id %q twice", name, m[1])
		}
	}
	for _, m := range regexp.MustCompile(` href="#([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if ids[m[1]] == 0 {
			t.Errorf("%s: link to #%s, which does not exist", name, m[1])
		}
	}
	labels := regexp.MustCompile(` aria-labelledby="([^"]*)"`)
	for _, m := range labels.FindAllStringSubmatch(page, -1) {
		for id := range strings.FieldsSeq(m[1]) {
			if ids[id] == 0 {
				t.Errorf("%s: labelled by #%s, which does not exist", name, id)
			}
		}
	}
}

func keepsTables(t *testing.T, page string) {
	t.Helper()
	tables, captions := strings.Count(page, "<table"), strings.Count(page, "<caption")
	if tables == 0 || tables != captions {
		t.Errorf("%d tables have %d captions", tables, captions)
	}
	if strings.Count(page, "<h1>") != 1 {
		t.Error("not exactly one h1")
	}
	scrolls := strings.Count(page, `class="scroll`)
	labelled := strings.Count(page, `tabindex="0" role="region" aria-label=`) +
		strings.Count(page, `"scroll tall" tabindex="0" role="group" aria-label=`) // its name may repeat
	if labelled != scrolls {
		t.Errorf("%d scroll areas, %d with keyboard access and a name", scrolls, labelled)
	}
}

func FuzzHTMLText(f *testing.F) {
	f.Add(hostile)
	f.Add("</style><style>*{display:none}")
	f.Add("\xff\xfe\x00")
	base := one(f)
	f.Fuzz(func(t *testing.T, text string) {
		d := base
		s := &d.Summary
		s.Run.Question, s.Run.Reproduce = text, text
		s.Environment.CPU = text
		s.Variants = append([]rundir.Variant(nil), s.Variants...)
		s.Variants[0].Name, s.Variants[0].Idea = text, text
		page := render(t, d)
		for element, most := range map[string]int{"<script": 1, "<style": 1, "<h1": 1} {
			if strings.Count(page, element) != most {
				t.Errorf("text %q makes %d %s", text, strings.Count(page, element), element)
			}
		}
		if strings.ContainsFunc(page, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }) {
			t.Errorf("text %q leaves a control character", text)
		}
	})
}

// The sizes that the page must keep to open at once.
func TestHTMLSize(t *testing.T) {
	tests := []struct {
		name              string
		variants, repeats int
		limit             int
	}{
		{"9 variants five times", 9, 5, 500_000},
		{"14 variants six times", 14, 6, 750_000},
	}
	for _, tt := range tests {
		d := fixture{designs: flashSale()[:tt.variants], repeats: tt.repeats, ops: 5_000,
			faults: true}.build(t)
		page := render(t, d)
		t.Logf("%s: %d bytes", tt.name, len(page))
		if len(page) > tt.limit {
			t.Errorf("%s: %d bytes, limit %d", tt.name, len(page), tt.limit)
		}
	}
	if script := between(t, sceneOf(t, "one").page(t), "<script>", "</script>"); len(script) > 6000 {
		t.Errorf("the script has %d bytes, limit 6000", len(script))
	}
}

// nineByFive is a run of nine designs and five repeats.
func nineByFive(t testing.TB) answer.Data {
	return fixture{designs: flashSale()[:9], repeats: 5, ops: 5000, faults: true}.build(t)
}

// BenchmarkHTML renders the page of nine designs and five repeats, which must not take
// more than 3 s and, as TestHTMLSize has it, 500 kB.
func BenchmarkHTML(b *testing.B) {
	d := nineByFive(b)
	size := 0
	for b.Loop() {
		size = len(render(b, d))
	}
	b.ReportMetric(float64(size)/1e3, "kB")
	if mean := b.Elapsed() / time.Duration(b.N); mean > 3*time.Second {
		b.Errorf("a page took %v, limit 3 s", mean)
	}
}

// TestHTMLEvidence: a violation has an anchor, what was not expected is open, and the command
// that reproduces it can be copied.
func TestHTMLEvidence(t *testing.T) {
	page := sceneOf(t, "all_failed").page(t)
	for _, want := range []string{`id="v-no-oversell-conditional_update-1"`,
		`<details class="exhibit bad" id="v-no-oversell-conditional_update" open>`,
		`data-copy="v-no-oversell-conditional_update-cmd" hidden>Copy</button>`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
}

// TestHTMLWithoutProcessorTime: what nobody measured is not zero.
func TestHTMLWithoutProcessorTime(t *testing.T) {
	d := fixture{designs: flashSale()[:2], repeats: 1, ops: 100}.build(t)
	for i := range d.Summary.Variants {
		d.Summary.Variants[i].Repeats[0].Processor = nil
	}
	page := render(t, d)
	if strings.Contains(page, "CPU time per operation") ||
		strings.Contains(page, "CPU/op") {
		t.Error("what was not measured is told")
	}
}

// The icon in the browser's tab has the three verdicts, each with a shape of its own.
func TestHTMLIcon(t *testing.T) {
	for name, want := range map[string]string{
		"one": "disc disc disc", "all_failed": "square disc square",
		"invalid": "triangle triangle disc", "undecided": "triangle disc triangle",
	} {
		link := html.UnescapeString(between(t, sceneOf(t, name).page(t), `<link rel="icon" href="`, `"`))
		svg, err := url.PathUnescape(strings.TrimPrefix(link, "data:image/svg+xml,"))
		if err != nil || len(link) > 1500 {
			t.Fatalf("%s: %d bytes, %v", name, len(link), err)
		}
		if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil {
			t.Errorf("%s: %v in %s", name, err, svg)
		}
		var shapes []string
		for _, part := range strings.Split(svg, "<g transform=")[1:] {
			for sign, shape := range map[string]string{"<circle": "disc", "h16v16H0z": "square",
				"l8 16H0z": "triangle"} {
				if strings.Contains(part, sign) {
					shapes = append(shapes, shape)
				}
			}
		}
		if got := strings.Join(shapes, " "); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// A run from before windows were kept has no heat map and says nothing about one; the
// scenario as it was run is there.
func TestHTMLWithoutWindows(t *testing.T) {
	d := fixture{designs: flashSale()[:1], repeats: 1, ops: 1000, faults: true}.build(t)
	with := render(t, d)
	d.Windows = nil
	without := render(t, d)
	for _, part := range []string{`class="shades"`, "crispEdges", "Data of the cells"} {
		if !strings.Contains(section(t, with, "time"), part) {
			t.Errorf("no %q", part)
		}
		if strings.Contains(section(t, without, "time"), part) {
			t.Errorf("without windows there is %q", part)
		}
	}
	if !strings.Contains(with, "max_in_flight: 512 # of the generator</pre>") {
		t.Error("the scenario is missing")
	}
}
