// Package queue is what systems that keep a queue in Postgres have in common: those that wait
// for work and are told of it, batches, and River as a peer.
package queue

import "context"

// Batches calls step until it does less than it may at once.
func Batches(ctx context.Context, most int, step func(context.Context) (int, error)) error {
	for {
		if n, err := step(ctx); err != nil || n < most {
			return err
		}
	}
}
