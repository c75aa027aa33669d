package flashsale

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"stampede/harness/stores"
	"stampede/harness/sut"
)

// redisLuaPipelined is redis_lua over few connections that everybody shares: concurrent calls
// of the script are written together and their replies read together, so that Redis and the
// client spend one system call on many buyers. If a connection breaks, the outcome of every
// call on it is unknown.
func redisLuaPipelined() variant {
	return offered{unitRows(), lasting}.reconciled(variant{
		Name:       "redis_lua_pipelined",
		Idea:       "redis_lua with concurrent calls pipelined automatically over shared connections",
		Guarantees: "every unit has at most one owner even if Redis is wrong, lost or late",
		GivesUp:    "isolation: calls that share a connection share its failure",
		Places:     []string{placeAdmitted},
		Open: func(_ context.Context, st *opened) (Shop, error) {
			client, err := openPipelined(st.Config)
			if err != nil {
				return nil, err
			}
			g := pipelinedGate{newTokens(st, 0), client, rueidis.NewLuaScript(takeToken)}
			return &pipelinedShop{unitsBehind(st, g), client}, nil
		},
	})
}

// openPipelined connects to the address of the go-redis options, so that both
// clients read one URL in one way.
func openPipelined(cfg sut.Config) (rueidis.Client, error) {
	opts, err := stores.RedisOptions(cfg)
	if err != nil {
		return nil, err
	}
	client, err := rueidis.NewClient(pipelinedOptions(opts))
	if err != nil {
		return nil, stores.Failed("connecting to Redis", err)
	}
	return client, nil
}

func pipelinedOptions(opts *redis.Options) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{opts.Addr}, ForceSingleClient: true,
		Username: opts.Username, Password: opts.Password, SelectDB: opts.DB,
		TLSConfig:        opts.TLSConfig,
		Dialer:           net.Dialer{Timeout: opts.DialTimeout},
		ConnWriteTimeout: opts.ReadTimeout,
		DisableRetry:     true, DisableCache: true,
		ClientSetInfo: rueidis.DisableClientSetInfo,
	}
}

// pipelinedGate runs takeToken through rueidis.
type pipelinedGate struct {
	*tokens
	client rueidis.Client
	script *rueidis.Lua
}

func (g pipelinedGate) admit(ctx context.Context, req BuyRequest) (admission, error) {
	ctx, cancel := context.WithTimeout(ctx, g.limit)
	defer cancel()
	n, err := g.script.Exec(ctx, g.client, g.takeKeys(req.Item),
		[]string{req.Buyer, tokenOf(req.OpID), fmt.Sprint(g.ttl.Milliseconds())}).AsInt64()
	return admission(n), err
}

// pipelinedShop closes the second client.
type pipelinedShop struct {
	*gatedShop
	client rueidis.Client
}

// Close waits for the calls under way.
func (s *pipelinedShop) Close() error {
	s.client.Close()
	return nil
}
