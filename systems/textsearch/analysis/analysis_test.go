package analysis

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestTokens has goldens for what an oracle with the same analysis would not see.
func TestTokens(t *testing.T) {
	for text, want := range map[string]string{
		"The Best Pizza in New York": "best pizza new york",
		"Houses, housing; HOUSED!":   "hous hous hous",
		"don't the dog's dogs’ 3.14": "dont dog dog 314",
		"Zürich naïve Ångström ﬁne":  "zurich naiv angstrom fine",
		"Straße Æsop Łódź":           "strass aesop lodz",
		"running runs runner easily": "run run runner easili",
		"北京 ２０２６ x_y e-mail":         "北 京 2026 xy e mail",
		"relational generously 🍕 --": "relat generous",
		"и Война и мир":              "и воина и мир",
		" ":                          "",
		"pizza _\u0488c":             "pizza c",
		"pizza\xff\xfe pie\xc3":      "pizza pie",
	} {
		if got := strings.Join(Terms(text), " "); got != want {
			t.Errorf("%q has the terms %q, not %q", text, got, want)
		}
	}
	got := Tokens(&Text{Title: "The House of Cards", Tags: "a b", Body: "cards"})
	want := []Token{{"hous", Title, 1}, {"card", Title, 3}, {"b", Tags, 1}, {"card", Body, 0}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("tokens are %v, not %v", got, want)
	}
}

// TestLists: stop words are in order and without apostrophes, and synonyms are stems.
func TestLists(t *testing.T) {
	if !slices.IsSorted(stopWords) {
		t.Error("the stop words are not in order")
	}
	for _, w := range stopWords {
		if len(split(w)) != 1 || split(w)[0].normal != w {
			t.Errorf("%q is no word", w)
		}
	}
	for _, group := range synonyms {
		for _, term := range strings.Fields(group) {
			if stem(term) != term && !slices.Contains([]string{"happi", "tini", "purchas"}, term) {
				t.Errorf("%q is no stem, but %q is", term, stem(term))
			}
		}
	}
}

// TestSounds has codes of Soundex from the National Archives' page, and of Metaphone by its rules.
func TestSounds(t *testing.T) {
	for word, want := range map[string]string{
		"washington": "W252", "lee": "L000", "gutierrez": "G362", "pfister": "P236",
		"jackson": "J250", "tymczak": "T522", "ashcraft": "A261", "vandeusen": "V532",
		"schwarzenegger": "S625", "swarzeneger": "S625", "swazeneger": "S252",
	} {
		if got := soundex(word); got != want {
			t.Errorf("Soundex of %s is %s, not %s", word, got, want)
		}
	}
	for word, want := range map[string]string{
		"knight": "NT", "night": "NT", "phone": "FN", "fone": "FN", "thumb": "0M", "school": "SKL",
		"science": "SNS", "church": "XRX", "nation": "NXN", "edge": "EJ", "xylophone": "SLFN",
		"which": "WX", "judge": "JJ", "sign": "SN", "wrack": "RK", "ghost": "KST",
	} {
		if got := metaphone(word); got != want {
			t.Errorf("Metaphone of %s is %s, not %s", word, got, want)
		}
	}
	if Codes("ab") != nil || Codes("a1b") != nil || Codes("日本語") != nil {
		t.Error("a term that is no word of letters has codes")
	}
}

// TestSoundexAutomaton: it accepts a term if and only if the term has the code.
func TestSoundexAutomaton(t *testing.T) {
	words := rapid.StringOfN(rapid.SampledFrom([]rune("abdhlmrstwyé1")), 0, 8, -1)
	rapid.Check(t, func(t *rapid.T) {
		one, other := words.Draw(t, "one"), words.Draw(t, "other")
		for _, code := range Codes(one) {
			if code[0] != 'S' {
				continue
			}
			a := Soundex(code[1:])
			for _, term := range []string{one, other} {
				state := a.Start()
				for i := range len(term) {
					state = a.Accept(state, term[i])
				}
				if a.IsMatch(state) != slices.Contains(Codes(term), code) || a.IsMatch(state) &&
					!a.CanMatch(state) {
					t.Fatalf("%s accepts %q: %v; that has %v", code, term, a.IsMatch(state), Codes(term))
				}
			}
		}
	})
}

// TestAnyText: any text has terms that are UTF-8, not long, and the same when they are read again.
func TestAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z' ]{0,90}`)).Draw(t, "text")
		for _, w := range split(text) {
			if !utf8.ValidString(w.normal) || len(w.normal) > MaxTerm || w.normal[0] < ' ' {
				t.Fatalf("%q has the word %q", text, w.normal)
			}
			if again := split(w.normal); len(again) == 1 && again[0].normal != w.normal {
				t.Fatalf("the word %q is %q when it is read again", w.normal, again[0].normal)
			}
			Codes(stem(w.normal))
		}
	})
}

// TestStems has examples of the page that Porter 2 is published on.
func TestStems(t *testing.T) {
	words := strings.Fields(`consigned consignment consist consistency consolation consonant
		conspicuous conspiracy constable constancy knackeries knaves kneeling knitting knots knowing`)
	stems := strings.Fields(`consign consign consist consist consol conson
		conspicu conspiraci constabl constanc knackeri knave kneel knit knot know`)
	for i, w := range words {
		if got := stem(w); got != stems[i] {
			t.Errorf("the stem of %s is %s, not %s", w, got, stems[i])
		}
	}
}

// library is a vocabulary: the tokens of each document.
type library [][]Token

func libraryOf(titles ...string) (l library) {
	for _, title := range titles {
		l = append(l, Tokens(&Text{Title: title}))
	}
	return l
}

// that are the terms for which a function is true, in order.
func (l library) that(is func(string) bool) (list []string) {
	for _, t := range slices.Concat(l...) {
		if is(t.Term) {
			list = append(list, t.Term)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (l library) Has(term string) bool { return l.Frequency(term) > 0 }

func (l library) Frequency(term string) (n int64) {
	for _, tokens := range l {
		if slices.ContainsFunc(tokens, func(t Token) bool { return t.Term == term }) {
			n++
		}
	}
	return n
}

func (l library) Fuzzy(term string, most int) []string {
	return l.that(func(t string) bool { return Distance(t, term) <= most })
}

func (l library) Pair(a, b string) (n int64) {
	for _, tokens := range l {
		for i := range len(tokens) - 1 {
			if tokens[i].Term == a && tokens[i+1].Term == b &&
				tokens[i].Position+1 == tokens[i+1].Position {
				n++
				break
			}
		}
	}
	return n
}

func (l library) Sounds(code string) []string {
	return l.that(func(t string) bool { return slices.Contains(Codes(t), code) })
}

// TestParse has the source's pipeline, step by step.
func TestParse(t *testing.T) {
	l := libraryOf("best pizza in New York", "New York house", "pizza house", "piazza",
		"Arnold Schwarzenegger", "mouse", "knight", "automobile race", "car boat", "car pool car race")
	for _, c := range []struct {
		text  string
		mode  Mode
		want  Query
		meant string
	}{
		{"the pizzza in newyork", And, must("pizza pie", "new", "york"), "pizza new york"},
		{"pizzza newyork", Or, must("pizza pie new york"), "pizza new york"},
		{"best pizzza in newyork", Phrase, Query{Phrase: []Placed{
			{"best", 0}, {"pizza", 1}, {"new", 3}, {"york", 4}}}, "best pizza new york"},
		{"newyork hous", Phrase, Query{Phrase: []Placed{{"new", 0}, {"york", 1}, {"hous", 2}}},
			"new york hous"},
		{"HOUPE", And, must("hous home resid dwell"), "hous"}, // nearer than mouse, and more frequent
		{"Swarzeneger", And, must("schwarzenegg"), "schwarzenegg"},
		{"nite", And, must("knight"), "knight"},
		{"carr", And, must("car automobil vehicl"), "car"},
		{"vehicle", And, must("vehicl car automobil"), ""}, // in no document, but its synonyms are
		{"unheardofthing", And, must("unheardofth"), ""},
		{"pizza th", Prefix, Query{Must: []Group{{Terms: []string{"pizza", "pie"}},
			{Terms: []string{"th"}, Prefix: "th"}}}, ""},
		{"p", Prefix, must("p"), ""},
		{"the of", And, Query{}, ""},
		{"", Prefix, Query{}, ""},
		{strings.Repeat("york ", MaxWords) + "pizza", Or, Query{Must: []Group{
			{Terms: slices.Repeat([]string{"york"}, MaxWords)}}}, ""},
	} {
		got, meant := Parse(c.text, c.mode, l)
		if !reflect.DeepEqual(got, c.want) || meant != c.meant {
			t.Errorf("%q (%s) is %v %q, not %v %q", c.text, c.mode, got, meant, c.want, c.meant)
		}
	}
}

// must makes a query of groups of terms.
func must(groups ...string) (q Query) {
	for _, g := range groups {
		q.Must = append(q.Must, Group{Terms: strings.Fields(g)})
	}
	return q
}
