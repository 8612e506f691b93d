package merkle

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// ErrProof is returned if a batch proof, or its set of leaves, is invalid. The text describes the
// fault.
var ErrProof = errors.New("invalid batch proof")

// Leaf is a leaf with its hash.
type Leaf struct {
	Index uint64    // from 0, below the size of the tree
	Hash  tlog.Hash // tlog.RecordHash of its data
}

// Prove returns the smallest batch proof for some leaves of the tree with size leaves. Together
// with the hashes of the leaves, the proof gives the root of the tree; see [Root]. The indexes must
// be strictly ascending and below size, and there must be at least one. For one leaf, the proof is
// its inclusion proof (RFC 6962, section 2.1.1). For all leaves, it is empty. It has at most 62
// hashes for each leaf.
//
// Prove reads from r in one call, in ascending order of the tlog indexes, at most 60 more hashes
// than it returns. If it needs none, it does not call r. It returns [ErrProof] for invalid leaves
// or size, or the error of r.
//
// The order of the proof is that of a walk from the root. A subtree without any of the leaves is
// the next hash of the proof. A subtree that is one of the leaves is known. Any other subtree is
// split at the largest power of 2 below its width, and its left side comes first.
func Prove(size uint64, leaves []uint64, r tlog.HashReader) ([]tlog.Hash, error) {
	if err := checkBatch(size, leaves, func(leaf uint64) uint64 { return leaf }); err != nil {
		return nil, err
	}
	missing := missingSubtrees(span{0, size}, leaves, nil)
	// Only the last subtree can need more than one index, for the reason given below.
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
		// A subtree at the right end of the tree can be incomplete. Then its hash is not stored,
		// but the hashes of its complete parts are.
		parts := bits.OnesCount64(s.hi - s.lo)
		proof[i], hashes = join(hashes[:parts]), hashes[parts:]
	}
	return proof, nil
}

// Root returns the root of the tree with size leaves that the leaves and a proof from [Prove]
// imply. The indexes must be strictly ascending and below size, and there must be at least one. For
// any input, Root computes fewer than 64 hashes for each leaf. It returns [ErrProof] if the proof
// does not have exactly the missing hashes, or if the leaves or the size are invalid.
//
// A wrong root is no error: the caller must compare the result with a trusted root. Root and size
// must come from the same source, a [Checkpoint]. As with any proof of RFC 6962, the size itself is
// not proven. Sizes that put the leaves at the same places below the root give the same root, such
// as 5 to 8 for the leaves 0 to 3. The caller must compute the hash of each leaf from its data,
// because the hash of any subtree would be accepted, too.
func Root(size uint64, leaves []Leaf, proof []tlog.Hash) (tlog.Hash, error) {
	if err := checkBatch(size, leaves, func(leaf Leaf) uint64 { return leaf.Index }); err != nil {
		return tlog.Hash{}, err
	}
	root, rest, ok := rootOf(span{0, size}, leaves, proof)
	if !ok {
		return tlog.Hash{}, invalidProof("too short: %d hashes do not give the root of %d leaves", len(proof), size)
	}
	if len(rest) > 0 {
		return tlog.Hash{}, invalidProof("too long: %d of its %d hashes are left over", len(rest), len(proof))
	}
	return root, nil
}

// invalidProof returns an [ErrProof] with a formatted reason.
func invalidProof(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrProof}, args...)...)
}

// checkBatch returns [ErrProof] if the size is above [MaxSize], there are no leaves, or the indexes
// are not strictly ascending and below size. index returns the index of a leaf.
func checkBatch[L any](size uint64, leaves []L, index func(L) uint64) error {
	if size > MaxSize {
		return invalidProof("a tree of %d leaves, at most %d are possible", size, uint64(MaxSize))
	}
	if len(leaves) == 0 {
		return invalidProof("it has no leaves")
	}
	next := uint64(0) // the smallest valid index
	for i, leaf := range leaves {
		at := index(leaf)
		if at < next {
			return invalidProof("the index %d of leaf %d is not above the previous index", at, i)
		}
		if at >= size {
			return invalidProof("the tree of %d leaves has no leaf with index %d", size, at)
		}
		next = at + 1
	}
	return nil
}

// span is a subtree, as the range [lo, hi) of its leaves. It is never empty, and has at most 62
// levels.
type span struct{ lo, hi uint64 }

// middle returns the first leaf of the right side of the subtree. Its left side is as wide as the
// largest power of 2 below its width, which must be above 1 (RFC 6962, section 2.1).
func (s span) middle() uint64 { return s.lo + 1<<(bits.Len64(s.hi-s.lo-1)-1) }

// missingSubtrees appends to found the maximal subtrees of s that contain none of the leaves, from
// left to right. leaves are indexes in ascending order, all of them in s.
func missingSubtrees(s span, leaves []uint64, found []span) []span {
	if len(leaves) == 0 {
		return append(found, s)
	}
	if s.hi-s.lo == 1 {
		return found
	}
	k := s.middle()
	split, _ := slices.BinarySearch(leaves, k) // number of leaves on the left side
	found = missingSubtrees(span{s.lo, k}, leaves[:split], found)
	return missingSubtrees(span{k, s.hi}, leaves[split:], found)
}

// rootOf returns the hash of the subtree s, and the rest of the proof after the hashes that it has
// used. ok is false if the proof is too short. leaves are in ascending order of their indexes, all
// of them in s.
func rootOf(s span, leaves []Leaf, proof []tlog.Hash) (hash tlog.Hash, rest []tlog.Hash, ok bool) {
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
	left, rest, ok := rootOf(span{s.lo, k}, leaves[:split], proof)
	if !ok {
		return tlog.Hash{}, nil, false
	}
	right, rest, ok := rootOf(span{k, s.hi}, leaves[split:], rest)
	if !ok {
		return tlog.Hash{}, nil, false
	}
	return tlog.NodeHash(left, right), rest, true
}

// join returns the hash of a subtree from those of its maximal complete parts, the widest first.
// There must be at least one.
func join(parts []tlog.Hash) tlog.Hash {
	last := len(parts) - 1
	hash := parts[last]
	for _, part := range slices.Backward(parts[:last]) {
		hash = HashNode(part, hash)
	}
	return hash
}
