package textsearch

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
	"stampede/systems/textsearch/analysis"
)

// Scheduled operation i owns the 16 identities from (i+1)<<4. The first is its own.
const (
	idBits = 4

	findMine   = 1 // its client searches for what was indexed
	findLater  = 2 // somebody searches for it later
	findPhrase = 3 // and for a phrase of it
	deleting   = 4 // the document is deleted
	rival      = 5 // and replaced at the same time
	findRival  = 6
	beside     = 7  // somebody searches for it meanwhile
	findGone   = 8  // and once it is deleted
	goneLater  = 9  // and after some merges
	replaced   = 10 // and for the version that was there before
)

// lookLater is when somebody looks for a second time, lookAgain for a third, and deleteLater when
// half of the documents are that are deleted.
const (
	lookLater   = 300 * time.Millisecond
	lookAgain   = 1500 * time.Millisecond
	deleteLater = 1200 * time.Millisecond
)

// newWorkload makes the operations as a pure function of the seed. Scheduled operations index
// documents and search.
func newWorkload(s *keys.Streams, p Params) sut.Workload {
	return &workload{p: p, table: API(), author: author{words()}, index: s.Coin(), remove: s.Coin(),
		rival: s.Coin(), docs: s.Skewed(p.Documents, p.Skew, 0, 0), clients: s.Uniform(p.Clients),
		random: s.Uniform(1 << 30)}
}

type workload struct {
	p     Params
	table *api.Table[Library]
	author

	index, remove, rival  keys.Coin
	docs, clients, random keys.Source
}

// Kinds lists the operation kinds, the main one first.
func (w *workload) Kinds() []string { return []string{KindSearch, KindIndex, KindDelete} }

func versionOf(i uint64) uint64 { return (i + 1) << idBits }

func (w *workload) client(i uint64) uint64 { return w.clients.At(i) + 1 }

func (w *workload) indexes(i uint64) bool { return w.index.At(i) < w.p.Indexing }

// Op returns scheduled operation i.
func (w *workload) Op(i uint64) history.Op {
	if w.indexes(i) {
		return w.put(w.docs.At(i)+1, versionOf(i), w.client(i))
	}
	return w.search(versionOf(i), w.client(i), w.question(i))
}

func (w *workload) put(doc, version, client uint64) history.Op {
	return w.table.Op(KindIndex, IndexRequest{doc, version, client, *w.text(version)})
}

func (w *workload) search(id, client uint64, q SearchRequest) history.Op {
	q.ID, q.Client = id, client
	return w.table.Op(KindSearch, q)
}

// find searches for a version of a document by its marker.
func (w *workload) find(id, client, version uint64) history.Op {
	return w.search(id, client, SearchRequest{Query: marker(version), Mode: analysis.And, Most: 10})
}

// recent is the version that an operation before i indexed, and its text.
func (w *workload) recent(i uint64) (t *analysis.Text) {
	for back := uint64(1); back < 50 && back <= i; back++ {
		if w.indexes(i - back) {
			return w.text(versionOf(i - back))
		}
	}
	return w.text(versionOf(i))
}

// question is what search i asks for: words, phrases, beginnings and mistyped words of what was
// indexed lately, and those of which many documents are alike.
func (w *workload) question(i uint64) SearchRequest {
	r := rand.New(rand.NewPCG(w.random.At(i), i))
	t := w.recent(i)
	title, body := strings.Fields(t.Title), strings.Fields(t.Body)
	at := r.IntN(len(body) - 2)
	q := SearchRequest{Mode: analysis.And, Most: 10}
	switch r.IntN(9) {
	case 0:
		q.Query = w.common(r)
	case 1:
		q.Query, q.Mode = w.common(r)+" "+w.common(r)+" "+body[at], analysis.Or
	case 2:
		q.Query = title[0] + " " + body[at]
	case 3:
		q.Query, q.Mode = strings.Join(body[at:at+2+r.IntN(2)], " "), analysis.Phrase
		if r.IntN(3) == 0 { // which is in two fields
			tags, about := strings.Fields(t.Tags), strings.Fields(t.Description)
			q.Query = tags[len(tags)-1] + " " + about[0]
		}
	case 4:
		q.Query, q.Mode = body[at]+" "+firstOf(body[at+1], 3), analysis.Prefix
		if r.IntN(4) == 0 { // with which many markers begin, in the end more than MaxPrefixed
			q.Query = firstOf(title[len(title)-1], 2)
		}
	case 5:
		q.Query = mistyped(r, title[r.IntN(len(title)-2)])
	case 6, 7: // twins are in it, and more of them than there are hits
		q.Query, q.Mode, q.Most = strings.Fields(w.alike(r.IntN(twins)).Title)[0], analysis.Or, 2
	case 8:
		q.Query, q.Mode, q.Most = w.common(r)+" "+title[len(title)/2], analysis.Or, 5
	}
	return q
}

// firstOf are the first characters of a text.
func firstOf(text string, n int) string {
	chars := []rune(text)
	return string(chars[:min(n, len(chars))])
}

// mistyped is a word in which a character is another one, or missing.
func mistyped(r *rand.Rand, word string) string {
	chars := []rune(word)
	at := r.IntN(len(chars))
	if len(chars) > 4 && r.IntN(2) == 0 {
		return string(append(chars[:at:at], chars[at+1:]...))
	}
	chars[at] = 'x'
	return string(chars)
}

// Follow returns what an operation brings about.
func (w *workload) Follow(
	op history.Op, outcome history.Outcome, _ history.Reply,
) (list []sut.FollowUp) {
	i, n := op.ID>>idBits-1, op.ID&(1<<idBits-1)
	add := func(after time.Duration, op history.Op) {
		list = append(list, sut.FollowUp{After: after, Op: op})
	}
	version, client, other := versionOf(i), w.client(i), w.client(i+1)
	doc := w.docs.At(i) + 1
	switch {
	case n == 0 && op.Kind == KindIndex && outcome == history.OK:
		add(0, w.find(version+findMine, client, version))
		add(lookLater, w.find(version+findLater, other, version))
		body := strings.Fields(w.text(version).Body)
		add(0, w.search(version+findPhrase, client, SearchRequest{Mode: analysis.Phrase, Most: 10,
			Query: strings.Join(body[:3], " ")}))
		gone := w.table.Op(KindDelete,
			DeleteRequest{Doc: doc, Version: version + deleting, Client: client})
		switch u := w.remove.At(i); {
		case u < w.p.Deletes:
			add(0, gone)
			add(0, w.find(version+beside, other, version))
			if w.rival.At(i) < w.p.Rivals {
				add(0, w.put(doc, version+rival, other))
			}
		case u < 2*w.p.Deletes: // it is in a segment by then, which may be in a merge
			add(deleteLater, gone)
		}
	case n == rival:
		add(0, w.find(version+findRival, other, version+rival))
		add(lookLater, w.find(version+replaced, client, version))
	case n == deleting:
		add(0, w.find(version+findGone, client, version))
		add(lookAgain, w.search(version+goneLater, other,
			SearchRequest{Query: serial(version), Mode: analysis.And, Most: 10}))
	}
	return list
}

// marker is a word that only one version of one document has. Each of its digits is there three
// times, so that no two markers are within two characters of each other, and none is taken for
// another one that was mistyped.
func marker(version uint64) string {
	var b strings.Builder
	for _, digit := range fmt.Sprint(version) {
		b.WriteString(strings.Repeat(string(digit), 3))
	}
	return b.String()
}

// serial is a word that some versions have, and others one that differs from it by a character:
// once no document has it, another one is searched instead.
func serial(version uint64) string {
	const letters = "bcdfghjklmnpqrtvwxz"
	n := version >> idBits
	return "kb" + string([]byte{letters[n%19], letters[n/19%19]})
}

// twins is how many texts there are of which many documents have the same.
const twins = 2

// text is that of a version. Its title ends with the marker.
func (w *workload) text(version uint64) *analysis.Text {
	r := rand.New(rand.NewPCG(version, 2))
	t := w.written(r)
	if r.Float64() < w.p.Twins {
		t = w.alike(r.IntN(twins))
	}
	t.Title += " " + serial(version) + " " + marker(version)
	return t
}

// author writes texts of some words.
type author struct{ words []string }

// alike is the text of twins of a kind, without their markers.
func (a author) alike(kind int) *analysis.Text {
	return a.written(rand.New(rand.NewPCG(uint64(kind), 1)))
}

// written makes a text, some of them long.
func (a author) written(r *rand.Rand) *analysis.Text {
	long := 1
	if r.IntN(20) == 0 {
		long = 8
	}
	return &analysis.Text{Title: a.sentence(r, 2+r.IntN(4)), Tags: a.sentence(r, 1+r.IntN(3)),
		Description: a.sentence(r, 4+r.IntN(10)), Body: a.sentence(r, long*(10+r.IntN(50)))}
}

// sentence makes so many words, and stop words between them.
func (a author) sentence(r *rand.Rand, n int) string {
	stops := [5]string{"the", "of", "and", "in", "with"}
	list := make([]string, 0, 2*n)
	for range n {
		if len(list) > 0 && r.IntN(6) == 0 {
			list = append(list, stops[r.IntN(len(stops))])
		}
		list = append(list, a.common(r))
	}
	return strings.Join(list, " ")
}

// common is a word, the first ones more often.
func (a author) common(r *rand.Rand) string {
	u := r.Float64()
	return a.words[int(u*u*float64(len(a.words)))]
}

// words are what texts are made of: with forms of one stem, capitals, accents and synonyms.
func words() []string {
	return strings.Fields(`garden water house light city river music paper glass bridge winter summer
		market village forest mountain island harbour kitchen window morning evening letter picture
		story history travel travels traveller journey train station machine engine engines engineer
		design designs designer pattern patterns search searching searched index document documents
		library reader readers reading writer writing written Berlin Zürich café naïve résumé crème
		coffee orange lemon apple bread butter cheese pepper sugar copper silver golden iron stone
		wooden cotton leather velvet quiet quick fast slow bright dark heavy gentle simple complex
		ancient modern open closed hidden distant nearby famous curious reliable fragile durable
		car automobile big large huge small little happy joyful begin started ending finish purchase
		error fault fix repair doctor physician child children work jobs money cash shop store
		connection connected connecting nation national nationality relation relational general
		generate generation operate operating operator university universal organise organised
		weather storm thunder lightning rainbow shadow mirror candle lantern compass anchor sail
		captain sailor pirate treasure castle knight dragon wizard queen king prince crown sword`)
}
