package crawler

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"stampede/harness/sut"
)

// Mutants are designs with a planted error each.
func Mutants() map[string]sut.Variant {
	of := func(plant func(frontier) frontier) sut.Variant {
		return systemOf(inStore(postgresFrontier(), remembered, func(st *opened) frontier {
			return plant(tables{st})
		})).Variants[0]
	}
	onJob := func(change func(*job)) sut.Variant {
		return of(func(f frontier) frontier { return taken{f, change} })
	}
	onResult := func(change func(*result)) sut.Variant {
		return of(func(f frontier) frontier { return stored{f, change} })
	}
	return map[string]sut.Variant{
		"control": of(func(f frontier) frontier { return f }),
		"rules for ever": onJob(func(j *job) {
			if j.Rules != nil {
				j.Rules.AgeMS = 0
			}
		}),
		"no rules": onJob(func(j *job) { j.Rules = &rules{} }),
		"no crawl delay": onJob(func(j *job) {
			if j.Rules != nil {
				j.Rules.Delay = 0
			}
		}),
		"redirects without end": onJob(func(j *job) {
			for i := range j.Pages {
				j.Pages[i].Hops = 0
			}
		}),
		"half a rest": onResult(func(r *result) { r.Rest /= 2 }),
		"what failed is done": onResult(func(r *result) {
			for i := range r.Pages {
				if r.Pages[i].State == waiting && !r.Pages[i].Kept {
					r.Pages[i].State = gone
				}
			}
		}),
		"an answer is said not to have come": of(func(f frontier) frontier {
			var once sync.Map
			return stored{f, func(r *result) {
				for i := range r.Pages {
					o := &r.Pages[i]
					if _, more := once.LoadOrStore(o.URL, true); o.Kept && !more {
						*o = outcome{URL: o.URL, Seq: o.Seq, State: waiting, Asked: true}
					}
				}
			}}
		}),
		"half a body": onResult(func(r *result) {
			for i := range r.Pages {
				r.Pages[i].Body = r.Pages[i].Body[:len(r.Pages[i].Body)/2]
			}
		}),
		"M82 stored before its links": of(func(f frontier) frontier { return forgetful{f} }),
	}
}

// taken changes jobs.
type taken struct {
	frontier
	change func(*job)
}

func (t taken) take(ctx context.Context, n int) ([]*job, time.Duration, error) {
	jobs, wait, err := t.frontier.take(ctx, n)
	for _, j := range jobs {
		t.change(j)
	}
	return jobs, wait, err
}

// stored changes results.
type stored struct {
	frontier
	change func(*result)
}

func (s stored) finish(ctx context.Context, j *job, r *result) error {
	s.change(r)
	return s.frontier.finish(ctx, j, r)
}

// forgetful makes nothing of every third list of pages known.
type forgetful struct{ frontier }

func (f forgetful) add(ctx context.Context, list []found) error {
	if len(list)%3 == 0 {
		return nil
	}
	return f.frontier.add(ctx, list)
}

// CrawlOnDisk crawls from seeds with disk_frontier's frontier, until so many pages are settled.
func CrawlOnDisk(ctx context.Context, p Params, folder string, seeds []string, pages int) error {
	m, err := openMemory(p, folder)
	if err != nil {
		return err
	}
	st := &opened{Params: p, Config: sut.Config{Folder: folder, Logger: slog.Default()}}
	f := newFetcher(st, m, remembered)
	list, err := f.find(ctx, seeds, 0, 0)
	if err == nil {
		err = m.add(ctx, list)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx) }()
	settled := func() int {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.pages) - m.left
	}
	for settled() < pages && sut.Pause(ctx, 5*time.Millisecond) {
	}
	cancel()
	return errors.Join(<-ended, m.log.Close())
}
