package merkle

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// ErrProof says that a batch proof, or the question that it answers, cannot be right. The text says
// what is wrong with it.
var ErrProof = errors.New("invalid batch proof")

// Leaf is a leaf whose hash is known.
type Leaf struct {
	Index uint64    // from 0, below the size of the tree
	Hash  tlog.Hash // tlog.RecordHash of its data
}

// Prove returns the fewest hashes that give, together with those of the leaves at the given
// indexes, the root of the tree with size leaves; see [Root]. The indexes must rise strictly and be
// below size, and there must be at least one. For one leaf these are the hashes of its inclusion
// proof (RFC 6962, section 2.1.1), for all leaves there are none. It returns at most 62 hashes for
// each leaf.
//
// Prove asks r once, for at most 60 more hashes than it returns, by rising tlog index, and not at
// all if there is nothing to ask. It returns [ErrProof] for a wrong question, or what r returns as
// an error.
//
// The order is that of a walk from the root. A subtree with none of the leaves is the next hash of
// the proof, one that is itself one of the leaves is known, and any other is split at the largest
// power of 2 below its width, the left side first.
func Prove(size uint64, leaves []uint64, r tlog.HashReader) ([]tlog.Hash, error) {
	if err := checkBatch(size, leaves, func(leaf uint64) uint64 { return leaf }); err != nil {
		return nil, err
	}
	missing := without(span{0, size}, leaves, nil)
	indexes := make([]int64, 0, len(missing)+bits.Len64(size))
	for _, s := range missing {
		indexes = stored(s.lo, s.hi, indexes)
	}
	hashes, err := read(r, indexes)
	if err != nil {
		return nil, err
	}
	proof := make([]tlog.Hash, len(missing))
	for i, s := range missing {
		// A subtree at the right end of the tree need not be complete. Then its hash is not stored,
		// but those of its complete parts are.
		parts := bits.OnesCount64(s.hi - s.lo)
		proof[i], hashes = join(hashes[:parts]), hashes[parts:]
	}
	return proof, nil
}

// Root returns the root of the tree with size leaves that the leaves and the proof, made by
// [Prove], imply. The indexes must rise strictly and be below size, and there must be at least one.
// Whatever the input, the cost is below 64 hashes for each leaf. It returns [ErrProof] if the proof
// does not have exactly the hashes that are missing, or the question is wrong.
//
// A root that is not the one of the tree is no error: the caller must compare it with a root it
// trusts, and must have that root and the size from the same place, a [Checkpoint]. As with any
// proof of RFC 6962, the size itself is not proven: sizes that put the leaves at the same places
// below the root, as 5 to 8 do with the leaves 0 to 3, give the same one. Likewise the caller must
// have computed the hash of a leaf from its data, since the hash of any subtree would do.
func Root(size uint64, leaves []Leaf, proof []tlog.Hash) (tlog.Hash, error) {
	if err := checkBatch(size, leaves, func(leaf Leaf) uint64 { return leaf.Index }); err != nil {
		return tlog.Hash{}, err
	}
	root, rest, ok := climb(span{0, size}, leaves, proof)
	if !ok {
		return tlog.Hash{}, unproven("too short: %d hashes do not give the root of %d leaves", len(proof), size)
	}
	if len(rest) > 0 {
		return tlog.Hash{}, unproven("too long: %d of its %d hashes are left over", len(rest), len(proof))
	}
	return root, nil
}

// unproven returns an [ErrProof] that says why.
func unproven(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrProof}, args...)...)
}

// checkBatch refuses a question about leaves that a tree of the size does not have, or out of
// order.
func checkBatch[L any](size uint64, leaves []L, index func(L) uint64) error {
	if size > MaxSize {
		return unproven("a tree of %d leaves, at most %d are possible", size, uint64(MaxSize))
	}
	if len(leaves) == 0 {
		return unproven("it is about no leaf")
	}
	next := uint64(0) // the least that the index may be
	for i, leaf := range leaves {
		at := index(leaf)
		if at < next {
			return unproven("the index %d of leaf %d does not lie above the one before", at, i)
		}
		if at >= size {
			return unproven("the tree of %d leaves has none with index %d", size, at)
		}
		next = at + 1
	}
	return nil
}

// span is a subtree, as the range of its leaves [lo, hi). It is never empty, and at most 62 levels
// high.
type span struct{ lo, hi uint64 }

// middle returns where the subtree splits: its left side is as wide as the largest power of 2 below
// its width, which must be above 1.
func (s span) middle() uint64 { return s.lo + 1<<(bits.Len64(s.hi-s.lo-1)-1) }

// without appends the widest subtrees of s that hold none of the leaves, from left to right. All
// leaves must lie in s.
func without(s span, leaves []uint64, found []span) []span {
	if len(leaves) == 0 {
		return append(found, s)
	}
	if s.hi-s.lo == 1 {
		return found
	}
	k := s.middle()
	split, _ := slices.BinarySearch(leaves, k)
	found = without(span{s.lo, k}, leaves[:split], found)
	return without(span{k, s.hi}, leaves[split:], found)
}

// climb returns the hash of s and what is left of the proof; not ok says that the proof ended too
// early. All leaves must lie in s.
func climb(s span, leaves []Leaf, proof []tlog.Hash) (hash tlog.Hash, rest []tlog.Hash, ok bool) {
	if len(leaves) == 0 {
		if len(proof) == 0 {
			return tlog.Hash{}, nil, false
		}
		return proof[0], proof[1:], true
	}
	if s.hi-s.lo == 1 {
		return leaves[0].Hash, proof, true
	}
	k := s.middle()
	split, _ := slices.BinarySearchFunc(leaves, k, func(l Leaf, k uint64) int { return cmp.Compare(l.Index, k) })
	left, rest, ok := climb(span{s.lo, k}, leaves[:split], proof)
	if !ok {
		return tlog.Hash{}, nil, false
	}
	right, rest, ok := climb(span{k, s.hi}, leaves[split:], rest)
	if !ok {
		return tlog.Hash{}, nil, false
	}
	return tlog.NodeHash(left, right), rest, true
}

// join returns the hash of a subtree from those of its complete parts, the widest first.
func join(parts []tlog.Hash) tlog.Hash {
	last := len(parts) - 1
	hash := parts[last]
	for _, part := range slices.Backward(parts[:last]) {
		hash = HashNode(part, hash)
	}
	return hash
}
