package sut_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stampede/harness/sut"
)

// TestWork: after an error a role opens its stores anew, whether opening failed or working,
// and what was opened is closed each time.
func TestWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var log bytes.Buffer
		cfg := sut.Config{Replica: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		var steps []string
		opened := 0
		work := sut.Work[int]{Name: "shop sells clerk",
			Open: func(context.Context, sut.Config) (int, error) {
				if opened++; opened == 2 {
					return 0, errors.New("no store answers")
				}
				return opened, nil
			},
			Close: func(n int) { steps = append(steps, "closed "+string(rune('0'+n))) },
			Do: func(ctx context.Context, n int) error {
				if n == 1 {
					return errors.New("it broke")
				}
				worked := 0
				cfg.OnWorked = func() { worked++ }
				return cfg.Every(ctx, 2500*time.Millisecond, func() error {
					if worked > 5 { // a long rest counts as work, each second
						cancel()
					}
					return nil
				})
			}}
		began := time.Now()
		if err := work.Run(ctx, cfg); err != nil {
			t.Error(err)
		}
		if got := strings.Join(steps, ", "); got != "closed 1, closed 3" {
			t.Errorf("%s", got)
		}
		if took := time.Since(began); took != 3*sut.AfterError+5*time.Second {
			t.Errorf("it took %v", took)
		}
		for _, want := range []string{`"shop sells clerk goes on after an error"`, "replica=2",
			"it broke", "no store answers"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("no %s in %s", want, log.String())
			}
		}
	})
	sut.Config{}.Warn("without a logger", errors.New("nothing happens"))
}

// TestRetry: errors in a row are met with ever longer rests, of a second at most; who has worked
// for some time begins anew.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var retry sut.Retry
		rests := func(n int) (took time.Duration) {
			began := time.Now()
			for range n {
				if !retry.Rest(t.Context()) {
					t.Error("it was not told to stop")
				}
			}
			return time.Since(began)
		}
		if took := rests(4); took != 1500*time.Millisecond {
			t.Errorf("four errors in a row took %v", took)
		}
		if took := rests(3); took != 3*time.Second {
			t.Errorf("three more took %v", took)
		}
		time.Sleep(5 * time.Second)
		if took := rests(1); took != sut.AfterError {
			t.Errorf("after some time without an error it took %v", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if retry.Rest(ctx) {
			t.Error("it was told to stop")
		}
	})
}
