package sqlbroker

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"stampede/harness/bounds"
	"stampede/harness/sut"
)

// Params are the workload's parameters. Their bounds keep operation identities unique (see
// newWorkload) and statements within what a server takes.
type Params struct {
	Queues    int `json:"queues" min:"1" max:"100" doc:"number of queues"`
	Worked    int `json:"worked" min:"0" max:"100" doc:"queues that the consumer role processes; operations consume the others"`
	Batch     int `json:"batch" min:"1" max:"1000" doc:"messages that are published together"`
	BodyBytes int `json:"body_bytes" min:"1" max:"65536" doc:"size of a message"`

	Grouped    float64      `json:"grouped" min:"0" max:"1" doc:"share of publications that belong to a group"`
	Groups     int          `json:"groups" min:"1" max:"1000000" doc:"number of groups"`
	Priorities int          `json:"priorities" min:"1" max:"100" doc:"number of priorities; with 1 all messages are equal"`
	Delayed    float64      `json:"delayed" min:"0" max:"1" doc:"share of publications with a delay"`
	DelayMost  sut.Duration `json:"delay_most" min:"0s" max:"24h" doc:"longest delay"`
	Poison     float64      `json:"poison" min:"0" max:"1" doc:"share of publications with a message that no consumer can process"`

	Receives     float64      `json:"receives" min:"0" max:"16" doc:"receives for each publication to a queue that operations consume"`
	ReceiveBatch int          `json:"receive_batch" min:"1" max:"1000" doc:"most messages that are received together, by operations and by consumers"`
	Wait         sut.Duration `json:"wait" min:"0s" max:"24h" doc:"how long a receive waits for a first message"`
	Think        sut.Duration `json:"think" min:"0s" max:"24h" doc:"longest time between two operations of a consumer"`
	Late         float64      `json:"late" min:"0" max:"1" doc:"share of deliveries that are acknowledged after their visibility timeout"`
	Extend       float64      `json:"extend" min:"0" max:"1" doc:"share of deliveries that are extended once and then acknowledged"`
	Release      float64      `json:"release" min:"0" max:"1" doc:"share of deliveries that are released"`
	Abandon      float64      `json:"abandon" min:"0" max:"1" doc:"share of deliveries that are never settled"`
	Resend       float64      `json:"resend" min:"0" max:"1" doc:"share of publications and acknowledgements that are sent twice with the same identity, at once or after the answer"`
	RetryOnLost  int          `json:"retry_on_lost" min:"0" max:"15" doc:"how often a request of unknown outcome is repeated, with the same identity"`

	Visibility  sut.Duration `json:"visibility" min:"10ms" max:"24h" doc:"visibility timeout of a delivered message (10m in production)"`
	MaxReceives int          `json:"max_receives" min:"1" max:"1000" doc:"deliveries after which a message becomes a dead letter"`
	Retention   sut.Duration `json:"retention" min:"1ms" max:"24h" doc:"age at which a message becomes a dead letter"`
	RatePerS    int          `json:"rate_per_s" min:"0" max:"1000000" doc:"messages and receives per second that a server allows for each queue; 0 is no limit"`
	Token       string       `json:"token" doc:"token that HTTP requests must carry; empty for none" secret:"true"`

	Workers      int          `json:"workers" min:"1" max:"256" doc:"how many batches a consumer works on at a time"`
	Handle       sut.Duration `json:"handle" min:"0s" max:"24h" doc:"how long a consumer works on a batch"`
	PollEvery    sut.Duration `json:"poll_every" min:"1ms" max:"24h" doc:"how often a waiting receive polls for messages"`
	SweepEvery   sut.Duration `json:"sweep_every" min:"1ms" max:"24h" doc:"how often the sweeper checks for due messages"`
	Keep         sut.Duration `json:"keep" min:"0s" max:"24h" doc:"how long an acknowledged message is kept (7 days in production)"`
	CollectEvery sut.Duration `json:"collect_every" min:"1ms" max:"24h" doc:"how often the collector deletes messages"`
	CollectBatch int          `json:"collect_batch" min:"1" max:"1000000" doc:"most messages that one statement deletes"`
	RotateEvery  sut.Duration `json:"rotate_every" min:"1ms" max:"24h" doc:"how long messages go to one partition, in designs with partitions"`
	ReportAfter  sut.Duration `json:"report_after" min:"0s" max:"24h" doc:"when a reporter begins a long transaction"`
	ReportFor    sut.Duration `json:"report_for" min:"0s" max:"24h" doc:"how long that transaction lasts; 0 means none"`
	ReportReads  bool         `json:"report_reads" doc:"whether it also reads the messages, which keeps partitions from being truncated"`
}

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
func (p Params) worked(queue string) bool { return isOf(queue, p.Worked) }

// isOf says whether a queue is one of the first n.
func isOf(queue string, most int) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(queue, "queue-"))
	return err == nil && n >= 1 && n <= most && queue == QueueName(n)
}

// Validate returns every bad field at once, each named as in a scenario, or nil.
func (p Params) Validate() error {
	err := bounds.Check(p)
	if p.Worked > p.Queues {
		err = errors.Join(err, fmt.Errorf("worked: expected at most queues (%d), got %d", p.Queues,
			p.Worked))
	}
	if all := p.Late + p.Extend + p.Release + p.Abandon; all > 1 {
		err = errors.Join(err, fmt.Errorf("abandon: late, extend, release and abandon are shares of "+
			"one, and add up to %g", all))
	}
	return err
}
