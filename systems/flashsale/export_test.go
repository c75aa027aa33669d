package flashsale

import (
	"context"
	"strconv"

	"stampede/harness/sut"
)

// ClaimSQL is the statement with which units_skip_locked sells.
func ClaimSQL() string { return newUnitShop(newBooks(nil, unitRows())).skip }

// TakeTokenLua is the script with which redis_lua admits.
const TakeTokenLua = takeToken

// Failed classifies an error of a store.
var Failed = failed

// Admit returns what passes the gate of an instance without claiming.
func Admit(inst sut.Instance) func(ctx context.Context, op uint64) error {
	shop := inst.(*instance).Shop.(*pipelinedShop)
	return func(ctx context.Context, op uint64) error {
		_, err := shop.pass(ctx, BuyRequest{
			OpID: op, Item: ItemKey(1), Buyer: "b" + strconv.FormatUint(op, 10)})
		return err
	}
}

// DesignName is the variant that an instance was opened from.
func DesignName(inst sut.Instance) string { return inst.(*instance).design.name }

// ReclaimSQL is the reclaimer's statement for unit rows.
func ReclaimSQL() string { return newBooks(nil, unitRows()).reclaimSQL }
