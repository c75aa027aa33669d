package flashsale_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/systems/flashsale"
)

// startForeign starts the shop that is written in Python and returns its URL.
// Continuous integration must have Python; elsewhere the test is skipped.
func startForeign(t *testing.T, args ...string) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("the foreign shop needs python3, which CI must have")
		}
		t.Skip("the foreign shop needs python3, which is not installed")
	}
	args = append([]string{"testdata/foreign/shop.py", "--port", "0"}, args...)
	cmd := exec.Command(python, args...)
	// Not our own: who outlives us would keep go test waiting for its end.
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the foreign shop said:\n%s", errs.String())
		}
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the foreign shop did not say its port: %v", err)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(port)
}

func foreignParams() flashsale.Params {
	p := flashsale.DefaultParams()
	p.Units = 20
	p.CartTTL = sut.Duration(600 * ms)
	p.ReclaimEvery = sut.Duration(20 * ms)
	p.PayDelay, p.PaySpread = sut.Duration(50*ms), sut.Duration(200*ms)
	p.LateSpread = sut.Duration(100 * ms)
	p.ClickTwice, p.BuyAgain, p.StockReads = 0.3, 0.3, 0.1
	return p
}

// foreignRun drives the workload against a target from goroutines of its own:
// a small closed-loop load, because what it asks is only who is right.
type foreignRun struct {
	target sut.Instance
	load   sut.Workload
	base   time.Time

	mu      sync.Mutex
	records []history.Record
	wg      sync.WaitGroup
}

func (r *foreignRun) one(ctx context.Context, op history.Op) {
	start := time.Since(r.base)
	reply, err := r.target.Do(ctx, op)
	rec := history.Record{
		Op: op, Reply: reply, Intended: start, Start: start, End: time.Since(r.base)}
	switch {
	case err == nil:
		rec.Outcome = history.OK
	case errors.Is(err, sut.ErrRefused):
		rec.Outcome, rec.Err, rec.Code = history.Refused, err.Error(), sut.Code(err)
	default:
		rec.Outcome, rec.Err = history.Unknown, err.Error()
	}
	r.mu.Lock()
	r.records = append(r.records, rec)
	r.mu.Unlock()
	for _, next := range r.load.Follow(op, rec.Outcome, reply) {
		r.wg.Add(1)
		time.AfterFunc(next.After, func() {
			defer r.wg.Done()
			r.one(ctx, next.Op)
		})
	}
}

// run offers ops operations from some workers and waits until all that
// follows is done and the shop is at rest.
func (r *foreignRun) run(t *testing.T, ops, workers int) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.target.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	todo := make(chan uint64)
	for range workers {
		r.wg.Add(1)
		go func() {
			defer r.wg.Done()
			for i := range todo {
				r.one(ctx, r.load.Op(i))
			}
		}()
	}
	for i := range ops {
		todo <- uint64(i)
	}
	close(todo)
	r.wg.Wait()
	for {
		pending, err := r.target.(sut.Quiescer).Quiesced(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if pending == "" {
			break
		}
		time.Sleep(10 * ms) // between polls, within ctx's deadline
	}
	slices.SortFunc(r.records, func(a, b history.Record) int {
		return cmp.Compare(a.Start, b.Start)
	})
	for i := range r.records {
		r.records[i].Seq = uint64(i)
	}
}

func foreignEvidence(t *testing.T, url string, seed uint64) (*evidence, []byte) {
	t.Helper()
	p := foreignParams()
	target, err := flashsale.API().Target(url,
		sut.Config{Params: &p, MaxConns: 64, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	r := &foreignRun{target: target, load: newLoad(t, seed, p), base: time.Now()}
	r.run(t, 400, 32)
	audit, err := target.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &evidence{params: p, records: r.records}, audit
}

// TestForeignShop: a correct server in another language is judged by the API
// alone and never broken; what it does not have (Redis) is named.
func TestForeignShop(t *testing.T) {
	url := startForeign(t)
	for seed := range uint64(2) { // the second sale begins with a reset
		e, audit := foreignEvidence(t, url, seed)
		verdicts := e.judgeRaw(audit)
		for name, v := range verdicts {
			if v.Status == fail {
				t.Errorf("seed %d: %s is broken: %+v", seed, name, v.Violations)
			}
		}
		for _, name := range []string{
			flashsale.NoOversell, flashsale.AckedDurable, flashsale.NoPhantom,
			flashsale.Conservation, flashsale.SellThrough, flashsale.NoFalseSoldOut,
			flashsale.UnitExclusive, flashsale.UnitPath,
		} {
			if v := verdicts[name]; v.Status != pass {
				t.Errorf("seed %d: %s is %s: %s", seed, name, v.Status, v.Reason)
			}
		}
		v := verdicts[flashsale.RedisDrift]
		if v.Status != maybe || !strings.Contains(v.Reason, "no redis") {
			t.Errorf("seed %d: redis-drift is %s: %s", seed, v.Status, v.Reason)
		}
	}
}

// TestForeignShopThatOversells: it is caught by the invariant that names it,
// with the buys that prove it.
func TestForeignShopThatOversells(t *testing.T) {
	e, audit := foreignEvidence(t, startForeign(t, "--oversell"), 1)
	v := e.judgeRaw(audit)[flashsale.NoOversell]
	if v.Status != fail || len(v.Witness) == 0 {
		t.Errorf("no-oversell is %s with witnesses %v: %s", v.Status, v.Witness, v.Reason)
	}
}
