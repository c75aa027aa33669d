package prefix_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stampede/systems/internal/prefix"
)

// begins tries all ways to change a prefix into the beginning of a phrase.
func begins(phrase, typed []rune, edits int) bool {
	if len(typed) == 0 {
		return true
	}
	if len(phrase) > 0 && phrase[0] == typed[0] && begins(phrase[1:], typed[1:], edits) {
		return true
	}
	return edits > 0 && (begins(phrase, typed[1:], edits-1) || len(phrase) > 0 &&
		(begins(phrase[1:], typed, edits-1) || begins(phrase[1:], typed[1:], edits-1)))
}

// best looks at all phrases.
func best(all map[string]prefix.Phrase, typed string, edits int) []prefix.Phrase {
	list := []prefix.Phrase{}
	for _, p := range all {
		if begins([]rune(p.Text), []rune(typed), edits) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b prefix.Phrase) int { return prefix.Better(&a, &b) })
	return list
}

// someText has few characters, so that phrases begin alike, and some of several bytes.
func someText(longest int) *rapid.Generator[string] {
	return rapid.StringOfN(rapid.SampledFrom([]rune("abcé日")), 1, longest, -1)
}

// TestIndexes: a trie after any batches of changes, and a segment of the same phrases, find what
// somebody finds who looks at all of them.
func TestIndexes(t *testing.T) {
	automata := prefix.NewAutomata()
	rapid.Check(t, func(t *rapid.T) {
		var trie prefix.Trie
		all := map[string]prefix.Phrase{}
		for range rapid.IntRange(1, 5).Draw(t, "batches") {
			var batch []prefix.Phrase
			for range rapid.IntRange(0, 20).Draw(t, "changes") {
				p := prefix.Phrase{Text: someText(12).Draw(t, "phrase"),
					Score:    rapid.Int64Range(0, 4).Draw(t, "score"),
					Trending: rapid.Bool().Draw(t, "trending")}
				batch = append(batch, p)
				if all[p.Text] = p; p.Score == 0 {
					delete(all, p.Text)
				}
			}
			seen := trie.Best(mustBe(t, automata, "a", 0))
			publish := trie.Prepare(batch)
			if again := trie.Best(mustBe(t, automata, "a", 0)); !slices.Equal(again, seen) {
				t.Fatalf("a batch is seen before it is published: %v, then %v", seen, again)
			}
			publish()
		}
		segment := segmentOf(t, all)
		without := map[string]bool{}
		for text := range all {
			without[text] = rapid.Bool().Draw(t, "without "+text)
			was, is := trie.Get(text)
			found, there := segment.Get(text)
			if was != all[text] || found != all[text] || !is || !there {
				t.Fatalf("%q is %v in the trie and %v in the segment, not %v", text, was, found, all[text])
			}
		}
		for _, edits := range []int{0, 0, 1, 2} {
			typed := someText(7).Filter(func(s string) bool { return len([]rune(s)) > edits }).
				Draw(t, "typed")
			q := mustBe(t, automata, typed, edits)
			want := best(all, typed, edits)
			for text := range all {
				if q.Fits(text) != begins([]rune(text), []rune(typed), edits) {
					t.Fatalf("%q fits %q with %d edits: %v", text, typed, edits, q.Fits(text))
				}
			}
			if got := trie.Best(q); !slices.Equal(got, want[:min(prefix.Most, len(want))]) {
				t.Fatalf("the trie finds %v for %q with %d edits, not %v", got, typed, edits, want)
			}
			want = slices.DeleteFunc(want, func(p prefix.Phrase) bool { return without[p.Text] })
			if got := segment.Best(q, without); !slices.Equal(got, want[:min(prefix.Most, len(want))]) {
				t.Fatalf("the segment finds %v for %q with %d edits, not %v", got, typed, edits, want)
			}
		}
		if _, is := trie.Get("zebra"); is {
			t.Fatal("the trie has a phrase that it was not given")
		}
	})
}

type fatal interface{ Fatal(...any) }

func mustBe(t fatal, a prefix.Automata, typed string, edits int) prefix.Typed {
	q, err := a.Of(typed, edits)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func segmentOf(t fatal, all map[string]prefix.Phrase) *prefix.Segment {
	var list []prefix.Phrase
	for _, text := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[text])
	}
	raw, head, err := prefix.Build(list)
	if err != nil {
		t.Fatal(err)
	}
	s, err := prefix.Open(raw, head)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMalformed: bytes that are no segment are an error, or at least harmless.
func TestMalformed(t *testing.T) {
	for _, raw := range [][]byte{nil, {1}, bytes.Repeat([]byte{0}, 64)} {
		if _, err := prefix.Open(raw, prefix.Head{}); err == nil {
			t.Errorf("%d bytes were opened as a segment", len(raw))
		}
	}
}
