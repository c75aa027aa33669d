package likes

import (
	"context"
	"fmt"
)

// redisPipelined is shards_fixed over one connection: go-redis' automatic pipeline writes the
// scripts of concurrent users to Redis together and reads their replies together, so that both
// spend one system call on many users instead of two on each. Scripts are still one at a time.
func redisPipelined(in ledgers) variant {
	v := shardsFixed(in)
	v.Name = "redis_pipelined"
	v.Idea = "shards_fixed with concurrent calls pipelined automatically by go-redis"
	v.Model = nil // its commands would share one connection
	v.GivesUp = "isolation: calls that share a connection share its failure"
	v.Open = func(ctx context.Context, st *opened) (Likes, error) {
		c, err := fixed(in).open(ctx, st)
		if err != nil {
			return nil, err
		}
		pipeline, err := st.Redis.AutoPipeline()
		if err != nil {
			return nil, fmt.Errorf("making a pipeline: %w", err)
		}
		c.store.call = pipeline
		return c, nil
	}
	return v
}
