package keys

import (
	"encoding/binary"
	"errors"
)

// Recipe makes a batch of keys, so that a history keeps some twenty bytes and not the keys: draws
// of ranks from a seed, of which each is a key from 1 to Keys.
type Recipe struct {
	Seed uint64
	// Draws is how many keys it makes, of Keys different ones at most, and Skew the exponent of
	// Ranks in thousandths. Rank 0 is the key Shift+1.
	Draws, Keys, Skew, Shift int
}

// The limits of a recipe that is read.
const (
	maxDraws = 1000
	maxKeys  = 1_000_000
	maxSkew  = 5000
)

var errRecipe = errors.New("keys: malformed recipe")

// Append encodes the recipe.
func (r Recipe) Append(to []byte) []byte {
	to = binary.LittleEndian.AppendUint64(to, r.Seed)
	for _, v := range []int{r.Draws, r.Keys, r.Skew, r.Shift} {
		to = binary.AppendUvarint(to, uint64(v))
	}
	return to
}

// ReadRecipe decodes a recipe of up to 1,000 draws of up to a million keys.
func ReadRecipe(from []byte) (r Recipe, err error) {
	if len(from) < 8 {
		return r, errRecipe
	}
	r.Seed, from = binary.LittleEndian.Uint64(from), from[8:]
	for _, v := range []struct {
		into *int
		most uint64
	}{{&r.Draws, maxDraws}, {&r.Keys, maxKeys}, {&r.Skew, maxSkew}, {&r.Shift, maxKeys}} {
		n, size := binary.Uvarint(from)
		if size <= 0 || n > v.most {
			return r, errRecipe
		}
		*v.into, from = int(n), from[size:]
	}
	if len(from) > 0 || r.Keys == 0 {
		return r, errRecipe
	}
	return r, nil
}

// Make makes the keys, in a list that may be used again.
func (r Recipe) Make(list []uint64) []uint64 {
	ranks := RanksOf(r.Keys, float64(r.Skew)/1000)
	list = list[:0]
	for i := range r.Draws {
		rank := ranks.At(mix(r.Seed + uint64(i)))
		list = append(list, uint64((rank+r.Shift)%r.Keys)+1)
	}
	return list
}
