package likes

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"stampede/harness/sut"
)

// redisCommitFirst is wrong: the worker commits the offsets of what it has read and then writes it
// to the ledger, so that nothing is ever written twice. It trusts that enough to have no
// repairer. The log has what is lost, and nobody reads it again.
func redisCommitFirst(in ledgers) variant {
	eager := counted{layout: oneKey, ledger: in, unrepaired: true}
	v := eager.variant()
	v.Name = "redis_commit_first"
	v.Idea = "redis_key with a worker that commits offsets before it writes to the ledger"
	v.Guarantees = "each interaction is written once, until a worker crashes"
	v.GivesUp = "interactions that a worker had committed but not yet written when it crashed"
	v.Roles = []role{eager.ledgerRole(func(b *backend) worker { return eagerWorker{ledgerWorker{b}} })}
	v.Breaks = []sut.Break{
		// If what is lost is a repeated click, the ledger is right all the same.
		{Invariant: LedgerIsLog, Under: sut.RoleCrash, Shows: sut.AtTimes},
		{Invariant: AppliedFirst, Under: sut.RoleCrash},
	}
	return v
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
	w.b.Config.Passed(PlaceBetween)
	return apply()
}

// first is no offset that the ledger would have to be at.
func (eagerWorker) first(*kgo.Record) int64 { return 0 }
