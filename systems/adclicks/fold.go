package adclicks

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/axiomhq/hyperloglog"

	"stampede/harness/stores"
)

// What becomes of a click in the log.
const (
	counted   = "counted"   // in time
	corrected = "corrected" // its window was closed, and was corrected
	late      = "late"      // its window is too old to be corrected
	duplicate = "duplicate"
	fraud     = "fraud"
)

// event is a click in the log, a row of a Parquet file, and in part one of the table decisions.
type event struct {
	Offset   int64  `json:"-" parquet:"offset" db:"-"`
	ID       uint64 `json:"op" parquet:"op" db:"-"`
	Click    string `json:"click" parquet:"click"`
	Campaign string `json:"campaign" parquet:"campaign,dict"`
	Ad       string `json:"ad" parquet:"ad,dict"`
	User     string `json:"user" parquet:"user" db:"-"`
	IP       string `json:"ip" parquet:"ip"`
	AtMS     int64  `json:"at" parquet:"at" db:"-"`
	Cents    int64  `json:"cents" parquet:"cents" db:"-"`
}

// decode reads a record's value.
func (e *event) decode(value []byte, offset int64) error {
	if err := json.Unmarshal(value, e); err != nil {
		return fmt.Errorf("the record at offset %d is no click: %w", offset, err)
	}
	e.Offset = offset
	return nil
}

// decision is what was decided of a click. The offset is that in the log of clicks.
type decision struct {
	event
	LogOffset int64  `json:"log_offset"`
	WindowMS  int64  `json:"window_ms"`
	Verdict   string `json:"verdict"`
}

func (d *decision) counts() bool { return d.Verdict == counted || d.Verdict == corrected }

func (d *decision) farm() farmKey { return farmKey{d.Campaign, d.Ad, d.IP, d.WindowMS} }

// rules say how clicks are decided, in milliseconds of event time.
type rules struct {
	window, lateness, horizon int64
	fraudMost                 int
}

// decider decides the clicks of a partition, one after the other. What it decides is a function of
// the log alone, so that whoever begins at offset 0 comes to the same.
type decider struct {
	rules
	next  int64            // the offset of the next click
	maxMS int64            // the latest event time
	seen  map[string]int64 // clicks that may not count again, each with the end of its window
	from  map[farmKey]int  // counted clicks
	swept int64            // up to what watermark old entries were forgotten

	// What a wrong design or a test does differently: when is the time that counts of a click,
	// mark the watermark, and remember for how long after its window a click is known.
	when     func(*event) int64
	mark     func(own int64) int64
	remember int64
	forgets  bool // repeated clicks are not looked for
}

// farmKey is whose clicks are limited.
type farmKey struct {
	campaign, ad, ip string
	window           int64
}

func newDecider(r rules) *decider {
	return &decider{rules: r, seen: map[string]int64{}, from: map[farmKey]int{}, remember: r.horizon,
		when: func(e *event) int64 { return e.AtMS }, mark: func(own int64) int64 { return own }}
}

// watermark is up to when no click should come any more that is in time.
func (d *decider) watermark() int64 { return d.mark(d.maxMS - d.lateness) }

// decide decides the next click.
func (d *decider) decide(e event) decision {
	at := d.when(&e)
	out := decision{event: e, LogOffset: e.Offset, WindowMS: at - at%d.window}
	end, mark := out.WindowMS+d.window, d.watermark()
	farm := out.farm()
	_, known := d.seen[e.Click]
	switch {
	case end <= mark-d.horizon:
		out.Verdict = late
	case known && !d.forgets:
		out.Verdict = duplicate
	case d.from[farm] >= d.fraudMost:
		out.Verdict = fraud
	case end <= mark:
		out.Verdict = corrected
	default:
		out.Verdict = counted
	}
	d.note(&out)
	d.next, d.maxMS = e.Offset+1, max(d.maxMS, at)
	d.sweep()
	return out
}

// note remembers a decision for those after it.
func (d *decider) note(out *decision) {
	if out.counts() {
		d.from[out.farm()]++
	}
	if out.counts() || out.Verdict == fraud {
		d.seen[out.Click] = out.WindowMS + d.window
	}
}

// sweep forgets what comes too late if it comes again, once in a window.
func (d *decider) sweep() {
	mark := d.maxMS - d.lateness
	if mark < d.swept+d.window {
		return
	}
	d.swept = mark
	maps.DeleteFunc(d.seen, func(_ string, end int64) bool { return end <= mark-d.remember })
	maps.DeleteFunc(d.from, func(k farmKey, _ int) bool { return k.window+d.window <= mark-d.horizon })
}

// sketchPrecision makes sketches of 2,048 registers, which are wrong by 2.3 % (standard error).
// They are never sparse, so that equal sets have equal bytes.
const sketchPrecision = 11

func newSketch() *hyperloglog.Sketch {
	s, err := hyperloglog.NewSketch(sketchPrecision, false)
	if err != nil {
		panic(err) // the precision is not one
	}
	return s
}

// sketchOf is a sketch that was stored, or an empty one.
func sketchOf(body []byte) (*hyperloglog.Sketch, error) {
	s := newSketch()
	if len(body) == 0 {
		return s, nil
	}
	return s, stores.Failed("reading a sketch of users", s.UnmarshalBinary(body))
}

// windowKey names a window.
type windowKey struct {
	campaign, ad string
	startMS      int64
}

func (k windowKey) compare(o windowKey) int {
	return cmp.Or(cmp.Compare(k.campaign, o.campaign), cmp.Compare(k.ad, o.ad),
		cmp.Compare(k.startMS, o.startMS))
}

// sums are what a window has. What came on time is what it had when it was closed.
type sums struct {
	Clicks int64  `json:"clicks"`
	Cents  int64  `json:"cents"`
	OnTime int64  `json:"on_time"`
	Sketch []byte `json:"sketch"` // of the users, as of the last seal

	users *hyperloglog.Sketch
	dirty bool
}

// add adds a click that counts.
func (s *sums) add(d *decision) error {
	if s.users == nil {
		var err error
		if s.users, err = sketchOf(s.Sketch); err != nil {
			return err
		}
	}
	s.Clicks++
	s.Cents += d.Cents
	if d.Verdict == counted {
		s.OnTime++
	}
	s.users.Insert([]byte(d.User))
	s.dirty = true
	return nil
}

// seal brings the bytes of the sketch up to date.
func (s *sums) seal() error {
	if s.users == nil {
		return nil
	}
	var err error
	s.Sketch, err = s.users.MarshalBinary()
	return err
}

// windows are those of a partition.
type windows map[windowKey]*sums

// add adds what counts to its window.
func (w windows) add(d *decision) error {
	if !d.counts() {
		return nil
	}
	k := windowKey{d.Campaign, d.Ad, d.WindowMS}
	if w[k] == nil {
		w[k] = &sums{}
	}
	return w[k].add(d)
}

// dirty are the windows that have changed since they were stored, in order.
func (w windows) dirty() (keys []windowKey) {
	for k, s := range w {
		if s.dirty {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, windowKey.compare)
	return keys
}

// digest is the SHA-256 of everything that a partition's clicks came to: each decision in the
// order of the log, and each window.
func digest(decisions []decision, w windows) (string, error) {
	h := sha256.New()
	for i := range decisions {
		d := &decisions[i]
		fmt.Fprintf(h, "%d %q %d %s\n", d.LogOffset, d.Click, d.WindowMS, d.Verdict)
	}
	for _, k := range slices.SortedFunc(maps.Keys(w), windowKey.compare) {
		if err := w[k].seal(); err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q %q %d %d %d %d %x\n", k.campaign, k.ad, k.startMS, w[k].Clicks, w[k].Cents,
			w[k].OnTime, w[k].Sketch)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// process decides clicks from the first on and adds them up.
func process(r rules, events []event) ([]decision, windows, error) {
	decisions, w := decideAll(r, events), windows{}
	for i := range decisions {
		if err := w.add(&decisions[i]); err != nil {
			return nil, nil, err
		}
	}
	return decisions, w, nil
}

// decideAll decides clicks from the first on.
func decideAll(r rules, events []event) []decision {
	d, list := newDecider(r), make([]decision, len(events))
	for i, e := range events {
		list[i] = d.decide(e)
	}
	return list
}
