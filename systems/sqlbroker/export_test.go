package sqlbroker

import (
	"context"

	"stampede/harness/history"
)

// BodyOf is the body of a message that a Recipe without options makes.
func BodyOf(op uint64, index int) string { return Recipe{}.body(op, index) }

// Perform is the one place that knows operations and calls.
func Perform(ctx context.Context, b Broker, op history.Op) (history.Reply, error) {
	return perform(ctx, b, op)
}
