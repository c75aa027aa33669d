package index

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/lang/en"

	"stampede/systems/textsearch/analysis"
)

// corpus makes documents of words as frequent as in English: the nth of the first 6,000 words in
// proportion to 1/n, and to 1/n^2 beyond (Ferrer i Cancho, Solé: Two Regimes in the Frequency of
// Words and the Origins of Complex Lexicons, 2001). The first are English's stop words.
type corpus struct {
	stop  []string
	total []float64 // of the weights up to a word
}

func newCorpus(words int) *corpus {
	c := &corpus{stop: strings.Fields("the of and a to in is you that it he for was on are as " +
		"with his they at be this from have or by one had not but")}
	sum := 0.0
	for n := range words {
		sum += 1 / (float64(n) + 2.7) / max(1, float64(n)/6000)
		c.total = append(c.total, sum)
	}
	return c
}

// word is the nth word.
func (c *corpus) word(n int) string {
	if n < len(c.stop) {
		return c.stop[n]
	}
	const consonants, vowels = "bcdfghjklmnprtvw", "aiou"
	var b strings.Builder
	for n = n*7919 + 1009; ; n /= 64 {
		b.WriteByte(consonants[n%16])
		b.WriteByte(vowels[n/16%4])
		if n < 64 {
			return b.String()
		}
	}
}

// text makes a text of so many words.
func (c *corpus) text(r *rand.Rand, words int) string {
	list := make([]string, words)
	for i := range list {
		n, _ := slices.BinarySearch(c.total, r.Float64()*c.total[len(c.total)-1])
		list[i] = c.word(n)
	}
	return strings.Join(list, " ")
}

// document makes a document: 50 words on average.
func (c *corpus) document(doc uint64) *analysis.Text {
	r := rand.New(rand.NewPCG(doc, 5))
	long := int(20 * math.Exp(0.6*r.NormFloat64()))
	return &analysis.Text{Title: c.text(r, 2+r.IntN(6)), Tags: c.text(r, r.IntN(4)),
		Description: c.text(r, 5+r.IntN(15)), Body: c.text(r, 8+long)}
}

// queries are of one to three words, of which common ones are as common as in documents.
func (c *corpus) queries(n int) (list []string) {
	r := rand.New(rand.NewPCG(99, 7))
	for len(list) < n {
		if q := c.text(r, 1+r.IntN(3)); len(analysis.Terms(q)) > 0 {
			list = append(list, q)
		}
	}
	return list
}

const corpusWords = 500_000

// peer is Bleve with the same documents, fields and weights.
func peer(b *testing.B, c *corpus, docs int) bleve.Index {
	m := bleve.NewIndexMapping()
	m.DefaultAnalyzer = en.AnalyzerName
	fields := bleve.NewDocumentMapping()
	for _, name := range []string{"title", "tags", "description", "body"} {
		f := bleve.NewTextFieldMapping()
		f.Store, f.IncludeInAll, f.DocValues = false, false, false
		fields.AddFieldMappingsAt(name, f)
	}
	m.DefaultMapping = fields
	x, err := bleve.New(filepath.Join(b.TempDir(), "bleve"), m)
	if err != nil {
		b.Fatal(err)
	}
	for from := 0; from < docs; from += 2000 {
		batch := x.NewBatch()
		for doc := from; doc < min(docs, from+2000); doc++ {
			t := c.document(uint64(doc))
			err := batch.Index(strconv.Itoa(doc), map[string]any{
				"title": t.Title, "tags": t.Tags, "description": t.Description, "body": t.Body})
			if err != nil {
				b.Fatal(err)
			}
		}
		if err := x.Batch(batch); err != nil {
			b.Fatal(err)
		}
	}
	return x
}

// asked asks Bleve for documents with all words, or one of them, each in any field.
func asked(q string, and bool) *bleve.SearchRequest {
	all := bleve.NewConjunctionQuery()
	one := bleve.NewDisjunctionQuery()
	for _, word := range strings.Fields(q) {
		if len(analysis.Terms(word)) == 0 {
			continue
		}
		fields := bleve.NewDisjunctionQuery()
		for f, name := range []string{"title", "tags", "description", "body"} {
			m := bleve.NewMatchQuery(word)
			m.SetField(name)
			m.SetBoost(float64(analysis.Field(f).Weight()))
			fields.AddQuery(m)
		}
		all.AddQuery(fields)
		one.AddQuery(fields)
	}
	if and {
		return bleve.NewSearchRequest(all)
	}
	return bleve.NewSearchRequest(one)
}

// ours fills an index from several clients, and flushes it.
func ours(b *testing.B, c *corpus, docs int, folder string) *Index {
	x, err := Open(context.Background(), Options{Folder: folder, FlushAt: 16384, MergeAt: 8})
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error)
	const clients = 64
	for client := range clients {
		go func() {
			var err error
			for doc := client; doc < docs && err == nil; doc += clients {
				_, err = x.Change(context.Background(), uint64(doc), 1, c.document(uint64(doc)))
			}
			done <- err
		}()
	}
	for range clients {
		err = cmp.Or(err, <-done)
	}
	if err = cmp.Or(err, x.Flush(context.Background())); err != nil {
		b.Fatal(err)
	}
	return x
}

// timed is the times of some queries, in microseconds, at the median and the 99th percentile.
func timed(queries []string, search func(q string)) (p50, p99 float64) {
	times := make([]time.Duration, len(queries))
	for i, q := range queries {
		began := time.Now()
		search(q)
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	return us(times[len(times)/2]), us(times[len(times)*99/100])
}

// size is how many bytes are in a folder's files, without the logs.
func size(b *testing.B, folder string) (n int64) {
	err := filepath.WalkDir(folder, func(_ string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() && !strings.HasPrefix(e.Name(), logPrefix) {
			about, err := e.Info()
			if err != nil {
				return err
			}
			n += about.Size()
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkSearch measures the ten best documents for 400 queries, of all words and of any of them,
// in 10,000, 100,000 and 1,000,000 documents, beside Bleve with the same documents: a ratio is how
// many times longer Bleve takes. Pruned searches are beside exhaustive ones, and the index's bytes
// beside the corpus's. STAMPEDE_DOCUMENTS bounds how many documents there are.
func BenchmarkSearch(b *testing.B) {
	most := 1_000_000
	if n, err := strconv.Atoi(os.Getenv("STAMPEDE_DOCUMENTS")); err == nil {
		most = n
	}
	c := newCorpus(corpusWords)
	queries := c.queries(400)
	for docs := 10_000; docs <= most; docs *= 10 {
		b.Run(fmt.Sprint(docs), func(b *testing.B) {
			for b.Loop() {
				compared(b, c, docs, queries)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func compared(b *testing.B, c *corpus, docs int, queries []string) {
	folder := b.TempDir()
	began := time.Now()
	x := ours(b, c, docs, folder)
	b.ReportMetric(float64(docs)/time.Since(began).Seconds(), "docs/s")
	began = time.Now()
	other := peer(b, c, docs)
	b.ReportMetric(float64(docs)/time.Since(began).Seconds(), "bleve-docs/s")
	var bytes int
	for doc := range docs {
		t := c.document(uint64(doc))
		bytes += len(t.Title) + len(t.Tags) + len(t.Description) + len(t.Body)
	}
	b.ReportMetric(100*float64(size(b, folder))/float64(bytes), "index-%")
	s := x.Snapshot()
	p50, p99 := timed(queries, func(q string) { analysis.Parse(q, analysis.And, s) })
	b.ReportMetric(p50, "parse-p50-us")
	b.ReportMetric(p99, "parse-p99-us")
	for _, mode := range []analysis.Mode{analysis.And, analysis.Or} {
		parsed := map[string]analysis.Query{}
		for _, q := range queries {
			parsed[q], _ = analysis.Parse(q, mode, s)
		}
		ours, slow := timed(queries, func(q string) { s.Search(parsed[q], 10) })
		b.ReportMetric(ours, string(mode)+"-p50-us")
		b.ReportMetric(slow, string(mode)+"-p99-us")
		p50, p99 := timed(queries, func(q string) {
			if _, err := other.Search(asked(q, mode == analysis.And)); err != nil {
				b.Fatal(err)
			}
		})
		b.ReportMetric(p50, string(mode)+"-bleve-p50-us")
		b.ReportMetric(p99, string(mode)+"-bleve-p99-us")
		b.ReportMetric(p50/ours, string(mode)+"-ratio")
	}
	if err := cmp.Or(x.Close(), other.Close()); err != nil {
		b.Fatal(err)
	}
}
