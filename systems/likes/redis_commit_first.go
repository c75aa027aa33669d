package likes

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sut"
)

// redisCommitFirst: the ledger's worker commits its offsets first. Wrong.
//
// Idea: as redis_key, but the worker commits the offsets of what it has read and
// then writes it to the ledger, so that nothing is ever written twice. It trusts
// that enough to have no repairer.
//
// Guarantee: each interaction is written to the ledger once, as long as the
// worker lives.
//
// Gives up: the interactions between the commit and the ledger, when the worker
// dies there. The log has them, and nobody reads them again.
func redisCommitFirst() design {
	d := redisKey()
	d.name = "redis_commit_first"
	d.idea = "redis_key with a worker that commits offsets before it writes to the ledger"
	d.guarantees = "each interaction is written once, until a worker crashes"
	d.givesUp = "interactions that a worker had committed but not yet written when it crashed"
	d.unrepaired = true
	d.worker = func(b *backend) worker { return eagerWorker{ledgerWorker{b}} }
	d.breaks = []sut.Break{
		{Invariant: LedgerIsLog, Under: sut.RoleCrash},
		{Invariant: AppliedFirst, Under: sut.RoleCrash},
	}
	return d
}

// eagerWorker goes on where its group is, without a look at the ledger.
type eagerWorker struct{ ledgerWorker }

// start leaves it to the group.
func (eagerWorker) start() []kgo.Opt { return nil }

// bring commits, and then applies.
func (w eagerWorker) bring(apply, commit func() error) error {
	if err := commit(); err != nil {
		return err
	}
	w.b.cfg.Passed(PlaceBetween)
	return apply()
}

// first is no offset that the ledger would have to be at.
func (eagerWorker) first(*kgo.Record) int64 { return 0 }
