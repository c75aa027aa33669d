package analysis_test

import (
	"reflect"
	"strings"
	"testing"

	"stampede/systems/textsearch/analysis"
	"stampede/systems/textsearch/exact"
)

type (
	query  = analysis.Query
	group  = analysis.Group
	placed = analysis.Placed
)

// TestParse has the source's pipeline, step by step.
func TestParse(t *testing.T) {
	c := exact.NewCorpus()
	for i, title := range []string{"best pizza in New York", "New York house", "pizza house", "piazza",
		"Arnold Schwarzenegger", "mouse", "knight", "automobile race", "car boat", "car pool car race"} {
		c.Add(exact.Version{Doc: uint64(i), Seq: int64(i)}, &analysis.Text{Title: title})
	}
	vocabulary := c.At(9)
	for _, c := range []struct {
		text  string
		mode  analysis.Mode
		want  query
		meant string
	}{
		{"the pizzza in newyork", "and", must("pizza pie", "new", "york"), "pizza new york"},
		{"pizzza newyork", "or", must("pizza pie new york"), "pizza new york"},
		{"best pizzza in newyork", "phrase", query{Phrase: []placed{
			{"best", 0}, {"pizza", 1}, {"new", 3}, {"york", 4}}}, "best pizza new york"},
		{"newyork hous", "phrase", query{Phrase: []placed{{"new", 0}, {"york", 1}, {"hous", 2}}},
			"new york hous"},
		{"HOUPE", "and", must("hous home resid dwell"), "hous"}, // nearer than mouse, and more frequent
		{"Swarzeneger", "and", must("schwarzenegg"), "schwarzenegg"},
		{"nite", "and", must("knight"), "knight"},
		{"carr", "and", must("car automobil vehicl"), "car"},
		{"vehicle", "and", must("vehicl car automobil"), ""}, // in no document, but its synonyms are
		{"unheardofthing", "and", must("unheardofth"), ""},
		{"pizza th", "prefix", query{Must: []group{{Terms: []string{"pizza", "pie"}},
			{Terms: []string{"th"}, Prefix: "th"}}}, ""},
		{"p", "prefix", must("p"), ""},
		{"the of", "and", query{}, ""},
		{"", "prefix", query{}, ""},
		{strings.Repeat("york ", analysis.MaxWords) + "pizza", "or",
			must(strings.Repeat("york ", analysis.MaxWords)), ""},
	} {
		got, meant := analysis.Parse(c.text, c.mode, vocabulary)
		if !reflect.DeepEqual(got, c.want) || meant != c.meant {
			t.Errorf("%q (%s) is %v %q, not %v %q", c.text, c.mode, got, meant, c.want, c.meant)
		}
	}
}

// must makes a query of groups of terms.
func must(groups ...string) (q query) {
	for _, g := range groups {
		q.Must = append(q.Must, group{Terms: strings.Fields(g)})
	}
	return q
}
