package likes

import "fmt"

// redisPipelined: shards_fixed over one connection that everybody shares.
//
// Idea: go-redis' automatic pipeline writes the scripts of concurrent users to
// Redis together and reads their replies together, so that both spend one system
// call on many users instead of two on each.
//
// Guarantee: that of shards_fixed; pipelined scripts are still one at a time.
//
// Gives up: isolation between users. They share a connection's fate: if it
// breaks, the outcome of every call on it is unknown.
func redisPipelined() design {
	d := shardsFixed()
	d.name = "redis_pipelined"
	d.idea = "shards_fixed with concurrent calls pipelined automatically by go-redis"
	d.givesUp = "isolation: calls that share a connection share its failure"
	d.likes = func(b *backend) (Likes, error) {
		pipeline, err := b.store.rdb.AutoPipeline()
		if err != nil {
			return nil, fmt.Errorf("making a pipeline: %w", err)
		}
		b.store.call = pipeline
		return &counting{b}, nil
	}
	return d
}
