package crawler

import (
	"context"
	"errors"
	"time"

	"stampede/systems/crawler/robots"
)

// frontier knows every page that was heard of, and which are to be fetched next. It has two levels:
// addresses, each of which is one process's alone for as long as that has a lease, and rests
// between two requests; and the pages of an address by priority, oldest first.
type frontier interface {
	// take leases up to n addresses that have something to fetch. It returns after how long there
	// may be more.
	take(ctx context.Context, n int) ([]*job, time.Duration, error)
	// add makes pages known, and seeds durable. Pages that are known already are left as they are, and
	// those beyond the most of a host are left out, unless they are seeds. The same op is the same
	// seed.
	add(ctx context.Context, list []found) error
	// finish stores what a job has led to, and gives the address back. errLost: another process has
	// it by now, and nothing was stored.
	finish(ctx context.Context, j *job, r *result) error
	// look reads what is known of a page.
	look(ctx context.Context, url string) (Page, error)
}

// errLost is that of a job whose lease is over.
var errLost = errors.New("another process has this address by now")

// job is an address that a process has, and what to ask one of its hosts for.
type job struct {
	IP, Host string
	Fence    int64
	Until    time.Time // when the lease is over, at the earliest
	Rules    *rules    // those of the host, nil if nobody has asked
	Failures int       // of the host, one after the other
	Pages    []task    // of the host, in order; one is fetched
	// Wait is for how long to wait before that, where an address is not leased.
	Wait time.Duration
}

// rules are those of a host's robots.txt.
type rules struct {
	robots.Rules
	// AgeMS is how old they are, of the time at which the job was taken.
	AgeMS int64 `json:"-"`
}

// task is a page that is to be fetched.
type task struct {
	URL      string
	Seq      int64 // in which order it was heard of; of its row, where a page may have several
	Priority int
	Hops     int   // redirects that led to it, one after the other
	Tries    int   // that failed, one after the other
	Fetched  int64 // answers
	Hash     string
	EveryMS  int64 // between two crawls of it
}

// found is a page that was heard of.
type found struct {
	URL, Host, IP  string
	Priority, Hops int
	// Op is the operation that asked for a seed, 0 if a page led to it. A seed counts as a page of its
	// host, and is not too many.
	Op uint64 `json:",string"` // Lua's numbers are not as long
}

// result is what a job has led to.
type result struct {
	// Rest is for how long the address is left alone.
	Rest time.Duration
	// Rules are new ones of the host. Quarantine is for how long the host is left alone, after so
	// many Failures, one after the other.
	Rules      *robots.Rules `json:"-"`
	Failures   int
	Quarantine time.Duration
	Pages      []outcome
}

// outcome is what became of a page.
type outcome struct {
	URL, State string
	Seq        int64 // of the task
	// Again is after how long it is fetched again, if its state is waiting.
	Again   time.Duration
	Asked   bool // it was asked for
	Kept    bool // there was an answer
	Status  int
	Hash    string
	Body    []byte `json:"-"`
	EveryMS int64
}

// lowest is the last of the classes of priority.
const lowest = 2

// pause is how long a host rests after so many failures, one after the other.
func (p Params) pause(failures int) time.Duration {
	return p.RetryPause.D() << min(max(0, failures-1), 6)
}
