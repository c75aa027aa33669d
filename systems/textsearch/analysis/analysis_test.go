package analysis

import (
	"reflect"
	"regexp"
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

// TestSoundPattern: it finds each term that has the code.
func TestSoundPattern(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.OneOf(rapid.StringMatching(`[a-z]{3,8}`),
			rapid.StringMatching(`[acdghkpstwxy][eghinost][cdghiknotx]{1,6}`)).Draw(t, "word")
		for _, code := range Codes(word) {
			if !regexp.MustCompile("^" + SoundPattern(code) + "$").MatchString(word) {
				t.Fatalf("%s has the code %s, and is not like %s", word, code, SoundPattern(code))
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
