package positions

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"stampede/harness/stores"
)

// cryptoShred seals each position with its driver's key, and erases by forgetting that.
//
// The idea: the API encrypts a position before it stores it anywhere, and decrypts it on a read.
// Log, history, newest positions and archive hold ciphertext only, so that deleting the key erases
// all of them at once, and every backup. A read fetches the key each time. A write may use a cached
// key: nobody can open what it encrypts once the key is deleted.
//
// The guarantee: an erasure is one small transaction, and over when it is answered. What is
// acknowledged is in the history, the newest position is the one with the highest number.
//
// It gives up: a lookup of the key for each read, and stores that can compute with positions. The
// ciphertext of erased drivers stays until it is swept, and still shows that a driver pinged and
// how often. An API process keeps the keys that it wrote with in memory until it ends.
func cryptoShred() variant {
	return twoPaths(variant{Name: "crypto_shred",
		Idea:       "a log and two paths, with sealed positions only; erasing forgets the driver's key",
		Guarantees: "what is acknowledged is kept once; an erasure is one update, and reaches every copy",
		GivesUp:    "a lookup of the key for each read, and reads as of now",
	}, shredding())
}

// shredding is the plan of cryptoShred, which wrong ones change.
func shredding() plan {
	return plan{insert: insertAll, seal: seal, open: unseal}
}

// keySize is that of AES-256.
const keySize = 32

// sealer is AES-GCM (NIST SP 800-38D) under a driver's key.
func sealer(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("using a key: %w", err)
	}
	return cipher.NewGCM(block)
}

// bound is what a sealed position belongs to: no other ping can have it.
func bound(p ping) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, p.Driver), uint64(p.Seq))
}

// seal seals a position under a nonce of 96 random bits. A driver would have to ping for 500 years
// to make 2^32 of them, after which NIST wants another key.
func seal(key []byte, p ping) (ping, error) {
	aead, err := sealer(key)
	if err != nil {
		return ping{}, err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(p.Body)+aead.Overhead())
	if _, err := rand.Read(nonce); err != nil {
		return ping{}, err
	}
	p.Body = aead.Seal(nonce, nonce, p.Body, bound(p))
	return p, nil
}

// unseal opens a sealed position. Without its key it is an error.
func unseal(key []byte, p ping) (Point, error) {
	aead, err := sealer(key)
	if err != nil {
		return Point{}, err
	}
	if len(p.Body) < aead.NonceSize() {
		return Point{}, errMalformed
	}
	nonce, sealed := p.Body[:aead.NonceSize()], p.Body[aead.NonceSize():]
	body, err := aead.Open(nil, nonce, sealed, bound(p))
	if err != nil {
		return Point{}, stores.Failed("opening a position", err)
	}
	return point(p.Seq, body)
}

// keysNow are the keys of all drivers who are not erased.
func keysNow(ctx context.Context, st *opened) (map[uint64][]byte, error) {
	list, err := stores.Collect[struct {
		Driver uint64
		Key    []byte
	}](ctx, st.DB, `SELECT driver, key FROM drivers WHERE key IS NOT NULL`)
	keys := map[uint64][]byte{}
	for _, row := range list {
		keys[row.Driver] = row.Key
	}
	return keys, stores.Failed("reading all keys", err)
}
