// Package merkle is the Merkle tree over the ledger's event log: RFC 6962 hashes
// (https://www.rfc-editor.org/rfc/rfc6962#section-2.1), in the storage order and with the proofs of
// [golang.org/x/mod/sumdb/tlog]. It adds what that package leaves open: an edge in memory, so that
// an append reads nothing; one proof for many leaves; and signed checkpoints
// (https://c2sp.org/tlog-checkpoint).
//
// The package keeps no state of its own and does no I/O. Nothing in it is safe for concurrent use
// with a call that changes the same value; only [Edge.Append] changes one.
package merkle

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// MaxSize is the largest number of leaves of a tree: 2⁶²−1, about 4.6·10¹⁸. Beyond it the
// arithmetic of tlog overflows int64, and some of its functions, CheckRecord and CheckTree among
// them, never return. A size from outside must therefore be held against MaxSize before it is given
// to tlog; [Open] and [Read] do so.
const MaxSize = 1<<62 - 1

// maxStored is the number of hashes stored for a tree of MaxSize leaves:
// tlog.StoredHashCount(MaxSize).
const maxStored = 1<<63 - 64

// ErrSize says that a tree would have more than [MaxSize] leaves.
var ErrSize = errors.New("tree is too large")

// Edge is the right edge of a growing tree: the hashes of the complete subtrees that its size is
// the sum of, at most 62. They are all it takes to append a leaf and to tell the root, so neither
// reads anything. The zero value is the edge of the empty tree.
type Edge struct {
	size   uint64
	hashes []tlog.Hash // the widest subtree comes first
	made   []tlog.Hash // by the last leaf
}

// LoadEdge returns the edge of the tree with the given number of leaves, 0 to [MaxSize]. It asks r
// once, for at most 62 hashes by rising tlog index, and not at all for an empty tree. It cannot
// tell whether r gives the right hashes: compare [Edge.Root] with a root known to be right. It
// returns [ErrSize], or what r returns as an error.
func LoadEdge(size uint64, r tlog.HashReader) (*Edge, error) {
	if err := checkSize(size); err != nil {
		return nil, err
	}
	hashes, err := read(r, stored(0, size, nil))
	if err != nil {
		return nil, err
	}
	return &Edge{size: size, hashes: slices.Clone(hashes)}, nil // r may use its slice again
}

// Append adds a leaf, given as its [tlog.RecordHash], and returns the hashes that it completes,
// from the leaf up: [Completes] of them, to be stored from tlog.StoredHashIndex(0, the size before)
// on. They stay until the next call. It returns [ErrSize], and leaves the edge as it was, if the
// tree is full.
func (e *Edge) Append(leaf tlog.Hash) ([]tlog.Hash, error) {
	if err := checkSize(e.size + 1); err != nil {
		return nil, err
	}
	// The leaf is merged with the narrowest subtree if that is of its width, then with the next,
	// and so on.
	merged := Completes(e.size) - 1
	kept := len(e.hashes) - merged
	if kept < 0 {
		return nil, fmt.Errorf("edge of a tree of %d leaves has %d hashes", e.size, len(e.hashes))
	}
	completed := append(e.made[:0], leaf)
	for i, left := range slices.Backward(e.hashes[kept:]) {
		completed = append(completed, HashNode(left, completed[merged-1-i]))
	}
	e.hashes = append(e.hashes[:kept], completed[merged])
	e.size++
	e.made = completed
	return completed, nil
}

// HashLeaf returns what [tlog.RecordHash] does for data in several pieces, without allocating for
// short data.
func HashLeaf(data ...[]byte) tlog.Hash {
	const leaf = 0 // the prefix of RFC 6962
	all := append(make([]byte, 0, 192), leaf)
	for _, piece := range data {
		all = append(all, piece...)
	}
	return sha256.Sum256(all)
}

// HashNode returns what [tlog.NodeHash] does, without allocating.
func HashNode(left, right tlog.Hash) tlog.Hash {
	const node = 1 // the prefix of RFC 6962
	var data [1 + 2*tlog.HashSize]byte
	data[0] = node
	copy(data[1:], left[:])
	copy(data[1+tlog.HashSize:], right[:])
	return sha256.Sum256(data[:])
}

// Size returns the number of leaves.
func (e *Edge) Size() uint64 { return e.size }

// Root returns the hash of the whole tree. That of the empty tree is SHA-256 of nothing (RFC 6962,
// section 2.1).
func (e *Edge) Root() tlog.Hash {
	if e.size == 0 {
		return sha256.Sum256(nil)
	}
	return join(e.hashes)
}

// Clone returns a copy that can grow on its own.
func (e *Edge) Clone() *Edge {
	return &Edge{size: e.size, hashes: slices.Clone(e.hashes)}
}

// Completes returns how many hashes are stored for the leaf with index n, counted from 0: its own,
// and one for each subtree that it completes. That is 1 + the number of trailing ones of n, so 1 to
// 62 for any leaf of a tree.
func Completes(n uint64) int { return 1 + bits.TrailingZeros64(^n) }

// Locate returns where the hash with this tlog index came from: the index of the leaf, from 0, and
// the place, from 0, among the hashes that [Edge.Append] returned for it. The place is also the
// level of the subtree, which has 2^at leaves and ends with that leaf. An index that no tree has,
// below 0 or beyond that of the last hash of [MaxSize] leaves, is given the place −1.
func Locate(index int64) (leaf uint64, at int) {
	if index < 0 || index >= maxStored {
		return 0, -1 // tlog panics on the former, and never returns for the last of the latter
	}
	level, n := tlog.SplitStoredHashIndex(index)
	return (uint64(n)+1)<<level - 1, level
}

func checkSize(size uint64) error {
	if size > MaxSize {
		return fmt.Errorf("%w: %d leaves, at most %d are possible", ErrSize, size, uint64(MaxSize))
	}
	return nil
}

// stored appends the tlog indexes of the hashes that make up the hash of the leaves [lo, hi): those
// of the complete subtrees that the range is the sum of, the widest first. lo must be a multiple of
// the smallest power of 2 that is not below the width, as it is for every subtree of a tree.
func stored(lo, hi uint64, indexes []int64) []int64 {
	for lo < hi {
		level := bits.Len64(hi-lo) - 1
		indexes = append(indexes, tlog.StoredHashIndex(level, int64(lo>>level)))
		lo += 1 << level
	}
	return indexes
}

// read is r.ReadHashes, but for an empty question, which r is spared, and for an answer of another
// length.
func read(r tlog.HashReader, indexes []int64) ([]tlog.Hash, error) {
	if len(indexes) == 0 {
		return nil, nil
	}
	hashes, err := r.ReadHashes(indexes)
	if err != nil {
		return nil, err
	}
	if len(hashes) != len(indexes) {
		return nil, fmt.Errorf("asked for %d stored hashes and got %d", len(indexes), len(hashes))
	}
	return hashes, nil
}
