package index

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"stampede/systems/textsearch/analysis"
)

// topics are what documents are about: words that nobody else's documents have. What is relevant to
// a query about a topic is known, therefore.
var topics = strings.Fields(`pizza restaurant schwarzenegger knight pneumonia phone telephone
	philosophy automobile house doctor picture happy purchase journey photograph rhythm psychology
	committee accommodation necessary embarrass millennium occurrence mississippi tomato potato
	banana guitar violin elephant giraffe kangaroo crocodile umbrella library university hospital
	airport bicycle chocolate strawberry breakfast dinner winter summer autumn spring monday`)

// sounds are ways to write what sounds alike.
var sounds = strings.NewReplacer("ph", "f", "kn", "n", "pn", "n", "ps", "s", "rh", "r", "ck", "k",
	"sch", "s", "ss", "s", "mm", "m", "cc", "k", "rr", "r", "gg", "g", "tt", "t", "ce", "se",
	"qu", "k", "ca", "ka", "co", "ko", "ee", "ea", "ie", "y")

// others are words of the same meaning, of which no document has any.
func others() map[string]string {
	return map[string]string{"automobile": "vehicle", "house": "dwelling", "doctor": "physician",
		"picture": "photo", "happy": "cheerful", "purchase": "buying", "journey": "trips"}
}

// typo changes a word in one place.
func typo(r *rand.Rand, w string) string {
	at, letter := 1+r.IntN(len(w)-1), string(rune('a'+r.IntN(26)))
	switch r.IntN(3) {
	case 0:
		return w[:at] + letter + w[at:]
	case 1:
		return w[:at] + w[at+1:]
	}
	return w[:at] + letter + w[at+1:]
}

// TestRecall: what was misspelt, joined, written as it sounds or by another word finds the
// documents that it is about. It logs recall and precision at 10, and holds them against a floor.
func TestRecall(t *testing.T) {
	x := mustOpen(t, newDisk(), Options{})
	defer x.Close()
	c, r := newCorpus(2000), rand.New(rand.NewPCG(11, 11))
	relevant := map[string][]uint64{}
	for doc := range uint64(2000) {
		text := c.document(doc)
		if int(doc) < 5*len(topics) {
			topic := topics[doc%uint64(len(topics))]
			relevant[topic] = append(relevant[topic], doc)
			into := []*string{&text.Title, &text.Tags, &text.Description, &text.Body}[r.IntN(4)]
			*into += " " + topic + " " + pair(topic)
		}
		if _, err := x.Change(t.Context(), doc, 1, text); err != nil {
			t.Fatal(err)
		}
	}
	s := x.Snapshot()
	for _, class := range []struct {
		name              string
		query             func(topic string) string
		recall, precision float64
	}{
		{"right", func(topic string) string { return topic }, 1, 1},
		{"misspelt", func(topic string) string { return typo(r, topic) }, 0.9, 0.9},
		{"joined", func(topic string) string { return topic + pair(topic) }, 0.9, 0.9},
		{"sound", sounds.Replace, 0.8, 0.8},
		{"synonym", func(topic string) string { return others()[topic] }, 1, 1},
	} {
		var recall, precision float64
		n := 0
		for range 4 {
			for _, topic := range topics {
				query := class.query(topic)
				if query == "" || class.name == "sound" && query == topic {
					continue
				}
				q, _ := analysis.Parse(query, analysis.And, s)
				hits := s.Search(q, 10).Hits
				good := 0
				for _, h := range hits {
					if slices.Contains(relevant[topic], h.Doc) {
						good++
					}
				}
				n++
				recall += float64(good) / float64(len(relevant[topic]))
				precision += float64(good) / float64(max(len(hits), 1))
			}
		}
		recall, precision = recall/float64(n), precision/float64(n)
		t.Logf("%-8s %3d queries, recall %.3f, precision %.3f", class.name, n, recall, precision)
		if recall < class.recall || precision < class.precision {
			t.Errorf("%s: recall %.3f and precision %.3f are below %.2f and %.2f", class.name, recall,
				precision, class.recall, class.precision)
		}
	}
}

// pair is a word that follows the topic's.
func pair(topic string) string { return "q" + topic[len(topic)-2:] + "ix" }
