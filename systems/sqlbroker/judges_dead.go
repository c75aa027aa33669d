package sqlbroker

import (
	"slices"
	"time"

	"stampede/harness/check"
)

const (
	// ageSlack is for how long, after the sweeper's pause, a message that is too old may still
	// wait.
	ageSlack = 5 * time.Second
	// agePending is for how long it may before it is work that is left to do. At rest none has
	// waited longer than that, whatever had stopped the sweeper; the rest of ageSlack is for
	// what passes between rest and the audit.
	agePending = time.Second
)

// needDead needs a dead letter.
func needDead(r *check.Run, f *final) func() {
	r.Need(len(f.Dead) > 0, "no message became a dead letter")
	return nil
}

// judgeSettings holds the queues against what they were asked to be. An audit without any queue
// proves nothing.
func judgeSettings(r *check.Run, f *final) {
	for n := range f.p.Queues {
		name := QueueName(n + 1)
		q := f.queues[name]
		if len(f.queues) > 0 && !slices.ContainsFunc(f.settings(name), func(s QueueSettings) bool {
			return s.MaxReceives == q.MaxReceives && s.VisibilityMS == q.VisibilityNS/1e6 &&
				s.RetentionMS == q.RetentionNS/1e6
		}) {
			r.Violate(nil, "%s is missing, or nobody gave it a visibility timeout of %v, %d deliveries "+
				"and a retention of %v", name, time.Duration(q.VisibilityNS), q.MaxReceives,
				time.Duration(q.RetentionNS))
		}
	}
}

// judgeDead holds dead letters against the settings of their queues, and what is no
// dead letter too.
func judgeDead(r *check.Run, f *final) {
	for _, m := range f.all {
		for _, d := range m.dead {
			r.Checked(1)
			f.judgeLetter(r, m, d)
		}
		for _, row := range m.rows {
			f.judgeAlive(r, m, row)
		}
		for _, d := range m.deliveries {
			if _, known := f.queues[d.queue]; known && d.Receives > f.terms(d.queue).most {
				r.Violate(m.proof(d), "%v has delivery number %d, but the most are %v", m, d.Receives,
					f.terms(d.queue))
			}
		}
	}
}

func (f *final) judgeLetter(r *check.Run, m *message, d DeadAudit) {
	_, known := f.queues[d.Queue]
	t, age := f.terms(d.Queue), time.Duration(d.AgeNS)
	switch {
	case !known:
		r.Violate(m.proof(), "%v is a dead letter of %s, which does not exist", m, d.Queue)
	case d.Reason == DeadReceives && (d.Receives < t.fewest || d.Receives > t.most):
		r.Violate(m.proof(), "%v is a dead letter of %s after %d deliveries, not %v", m, d.Queue,
			d.Receives, t)
	case d.Reason == DeadRetention && age < t.shortest:
		r.Violate(m.proof(), "%v is a dead letter of %s at the age of %v, less than %v", m, d.Queue, age,
			t.shortest)
	case d.Reason == DeadReceives && f.deadYoung(m, d, t):
		r.Violate(m.proof(), "%v is a dead letter of %s after %d deliveries within %v, but a delivery "+
			"lasts %v: it was released, although it can be processed", m, d.Queue, d.Receives, age,
			t.briefest)
	}
}

// deadYoung says that a dead letter of a queue that consumers work off was certainly given
// back by them, although they could have worked it off: its neighbour in a batch could not be,
// and did not die alone. Consumers may die with a message and sleep over it, as often as it
// is delivered, and it dies without its fault. But each of these deliveries lasts until its
// time is over, so that all of them take as many visibility timeouts, whatever befalls the
// consumers and the stores; who dies younger was given back. Of what operations may have given
// back, or what began to count anew, nothing is said.
func (f *final) deadYoung(m *message, d DeadAudit, t terms) bool {
	return f.p.worked(d.Queue) && d.Redrives == 0 && d.AgeNS > 0 && m.sent != nil &&
		!poisonous(m.sent.Body) &&
		time.Duration(d.AgeNS) < time.Duration(d.Receives)*(t.briefest-clockSlack) &&
		!slices.ContainsFunc(m.deliveries, func(d *delivery) bool { return d.mayBe(KindRelease) })
}

// judgeAlive looks for what should be a dead letter. In the hands of its consumer the last
// delivery may still succeed.
//
// What should have died of age has waited since it is too old, and also waits, and its queue's
// retention is what it is: what is with a consumer may grow older than that and come back, and
// a retention may be lowered. What the audit does not say is taken for just now.
func (f *final) judgeAlive(r *check.Run, m *message, row MessageAudit) {
	q, known := f.queues[row.Queue]
	if row.State == StateAcked || row.State == StatePicked || !known {
		return
	}
	r.Checked(1)
	if row.Receives >= f.terms(row.Queue).most {
		r.Violate(m.proof(), "%v was delivered %d times and waits in %s; it should be a dead letter", m,
			row.Receives, row.Queue)
	}
	late := time.Duration(min(row.AgeNS-q.RetentionNS, row.WaitsNS, q.RetentionAgeNS))
	if late > f.p.SweepEvery.D()+ageSlack {
		r.Unfinished(m.proof(), "%v has waited in %s for %v although it is older than %v; it should be "+
			"a dead letter", m, row.Queue, late, time.Duration(q.RetentionNS))
	}
}
