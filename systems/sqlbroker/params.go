package sqlbroker

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"stampede/harness/sut"
)

// Params are the workload's parameters.
type Params struct {
	Queues    int `json:"queues" doc:"number of queues"`
	Worked    int `json:"worked" doc:"queues that the consumer role processes; operations consume the others"`
	Batch     int `json:"batch" doc:"messages that are published together"`
	BodyBytes int `json:"body_bytes" doc:"size of a message"`

	Grouped    float64      `json:"grouped" doc:"share of publications that belong to a group"`
	Groups     int          `json:"groups" doc:"number of groups"`
	Priorities int          `json:"priorities" doc:"number of priorities; with 1 all messages are equal"`
	Delayed    float64      `json:"delayed" doc:"share of publications with a delay"`
	DelayMost  sut.Duration `json:"delay_most" doc:"longest delay"`
	Poison     float64      `json:"poison" doc:"share of publications with a message that no consumer can process"`

	Receives     float64      `json:"receives" doc:"receives for each publication to a queue that operations consume"`
	ReceiveBatch int          `json:"receive_batch" doc:"most messages that are received together, by operations and by consumers"`
	Wait         sut.Duration `json:"wait" doc:"how long a receive waits for a first message"`
	Think        sut.Duration `json:"think" doc:"longest time between two operations of a consumer"`
	Late         float64      `json:"late" doc:"share of deliveries that are acknowledged after their visibility timeout"`
	Extend       float64      `json:"extend" doc:"share of deliveries that are extended once and then acknowledged"`
	Release      float64      `json:"release" doc:"share of deliveries that are released"`
	Abandon      float64      `json:"abandon" doc:"share of deliveries that are never settled"`
	Resend       float64      `json:"resend" doc:"share of publications and acknowledgements that are sent twice with the same identity, at once or after the answer"`
	RetryOnLost  int          `json:"retry_on_lost" doc:"how often a request of unknown outcome is repeated, with the same identity"`

	Visibility  sut.Duration `json:"visibility" doc:"visibility timeout of a delivered message (10m in production)"`
	MaxReceives int          `json:"max_receives" doc:"deliveries after which a message becomes a dead letter"`
	Retention   sut.Duration `json:"retention" doc:"age at which a message becomes a dead letter"`
	RatePerS    int          `json:"rate_per_s" doc:"messages and receives per second that a server allows for each queue; 0 is no limit"`
	Token       string       `json:"token" doc:"token that HTTP requests must carry; empty for none" secret:"true"`

	Workers      int          `json:"workers" doc:"how many batches a consumer works on at a time"`
	Handle       sut.Duration `json:"handle" doc:"how long a consumer works on a batch"`
	PollEvery    sut.Duration `json:"poll_every" doc:"how often a waiting receive polls for messages"`
	SweepEvery   sut.Duration `json:"sweep_every" doc:"how often the sweeper checks for due messages"`
	Keep         sut.Duration `json:"keep" doc:"how long an acknowledged message is kept (7 days in production)"`
	CollectEvery sut.Duration `json:"collect_every" doc:"how often the collector deletes messages"`
	CollectBatch int          `json:"collect_batch" doc:"most messages that one statement deletes"`
	RotateEvery  sut.Duration `json:"rotate_every" doc:"how long messages go to one partition, in designs with partitions"`
	ReportAfter  sut.Duration `json:"report_after" doc:"when a reporter begins a long transaction"`
	ReportFor    sut.Duration `json:"report_for" doc:"how long that transaction lasts; 0 means none"`
	ReportReads  bool         `json:"report_reads" doc:"whether it also reads the messages, which keeps partitions from being truncated"`
}

// The bounds of Params. They keep operation identities unique (see NewWorkload) and
// statements within what a server takes.
const (
	maxQueues  = 100
	maxBatch   = 1000
	maxBody    = 64 << 10
	maxRetries = 15
	maxDemands = 16
	maxTime    = 24 * time.Hour
	maxWorkers = 256
	// maxReceives is what the column holds, which is far more than makes sense.
	maxReceives = 1000
)

// DefaultParams are three queues, of which one is consumed by operations.
func DefaultParams() Params {
	ms := func(n int) sut.Duration { return sut.Duration(n) * sut.Duration(time.Millisecond) }
	return Params{
		Queues: 3, Worked: 2, Batch: 5, BodyBytes: 100,
		Grouped: 0.2, Groups: 20, Priorities: 2, Delayed: 0.1, DelayMost: ms(300), Poison: 0.02,
		Receives: 1, ReceiveBatch: 10, Wait: ms(100), Think: ms(200),
		Late: 0.05, Extend: 0.1, Release: 0.05, Resend: 0.05, RetryOnLost: 3,
		Visibility: ms(1000), MaxReceives: 5, Retention: sut.Duration(time.Hour),
		Workers: 4, PollEvery: ms(20), SweepEvery: ms(50), Keep: ms(1000), CollectEvery: ms(200),
		CollectBatch: 10_000, RotateEvery: ms(1000),
	}
}

// settings are those of every queue.
func (p Params) settings() QueueSettings {
	return QueueSettings{VisibilityMS: p.Visibility.D().Milliseconds(), MaxReceives: p.MaxReceives,
		RetentionMS: p.Retention.D().Milliseconds(), RatePerS: p.RatePerS}
}

// QueueName names a queue, from 1: "queue-1".
func QueueName(n int) string { return "queue-" + strconv.Itoa(n) }

// worked says whether the role consumer works a queue off: the first ones.
func (p Params) worked(queue string) bool {
	for n := range p.Worked {
		if queue == QueueName(n+1) {
			return true
		}
	}
	return false
}

// Validate returns every bad field at once, each named as in a scenario, or nil.
func (p Params) Validate() error {
	v := &validation{}
	p.validateMessages(v)
	p.validateConsumers(v)
	p.validateRoles(v)
	return errors.Join(v.errs...)
}

func (p Params) validateMessages(v *validation) {
	v.count("queues", p.Queues, 1, maxQueues)
	v.count("worked", p.Worked, 0, p.Queues)
	v.count("batch", p.Batch, 1, maxBatch)
	v.count("body_bytes", p.BodyBytes, 1, maxBody)
	v.share("grouped", p.Grouped, 1)
	v.count("groups", p.Groups, 1, 1_000_000)
	v.count("priorities", p.Priorities, 1, 100)
	v.share("delayed", p.Delayed, 1)
	v.duration("delay_most", p.DelayMost, 0)
	v.share("poison", p.Poison, 1)
}

func (p Params) validateConsumers(v *validation) {
	v.share("receives", p.Receives, maxDemands)
	v.count("receive_batch", p.ReceiveBatch, 1, maxBatch)
	v.duration("wait", p.Wait, 0)
	v.duration("think", p.Think, 0)
	v.share("late", p.Late, 1)
	v.share("extend", p.Extend, 1)
	v.share("release", p.Release, 1)
	v.share("abandon", p.Abandon, 1)
	if all := p.Late + p.Extend + p.Release + p.Abandon; all > 1 {
		v.add("abandon", "late, extend, release and abandon are shares of one, and add up to %g", all)
	}
	v.share("resend", p.Resend, 1)
	v.count("retry_on_lost", p.RetryOnLost, 0, maxRetries)
}

func (p Params) validateRoles(v *validation) {
	v.duration("visibility", p.Visibility, 10*time.Millisecond)
	v.count("max_receives", p.MaxReceives, 1, maxReceives)
	v.duration("retention", p.Retention, time.Millisecond)
	v.count("rate_per_s", p.RatePerS, 0, 1_000_000)
	v.count("workers", p.Workers, 1, maxWorkers)
	v.duration("handle", p.Handle, 0)
	v.duration("poll_every", p.PollEvery, time.Millisecond)
	v.duration("sweep_every", p.SweepEvery, time.Millisecond)
	v.duration("keep", p.Keep, 0)
	v.duration("collect_every", p.CollectEvery, time.Millisecond)
	v.count("collect_batch", p.CollectBatch, 1, 1_000_000)
	v.duration("rotate_every", p.RotateEvery, time.Millisecond)
	v.duration("report_after", p.ReportAfter, 0)
	v.duration("report_for", p.ReportFor, 0)
}

func paramsOf(params any) (Params, error) {
	switch p := params.(type) {
	case Params:
		return p, nil
	case *Params:
		if p != nil {
			return *p, nil
		}
	}
	return Params{}, fmt.Errorf("expected the parameters of sqlbroker, got %T", params)
}

// validation gathers errors that name their field.
type validation struct{ errs []error }

func (v *validation) add(field, format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
}

func (v *validation) count(field string, got, low, high int) {
	if got < low || got > high {
		v.add(field, "expected %d to %d, got %d", low, high, got)
	}
}

// share also refuses NaN, which compares false with everything.
func (v *validation) share(field string, got, high float64) {
	if !(got >= 0 && got <= high) {
		v.add(field, "expected a number from 0 to %g, got %g", high, got)
	}
}

func (v *validation) duration(field string, got sut.Duration, low time.Duration) {
	if got.D() < low || got.D() > maxTime {
		v.add(field, "expected a duration from %s to %s, got %s", low, maxTime, got)
	}
}
