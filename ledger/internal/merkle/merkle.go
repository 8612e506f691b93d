// Package merkle implements the Merkle tree over the ledger's event log. It uses the hashes of RFC
// 6962 (https://www.rfc-editor.org/rfc/rfc6962#section-2.1), and the storage order and proofs of
// [golang.org/x/mod/sumdb/tlog]. It adds what that package lacks: a frontier in memory, so that an
// append reads nothing; one proof for many leaves; and signed checkpoints
// (https://c2sp.org/tlog-checkpoint).
//
// The package has no state and does no I/O. Only [Frontier.Append] changes a value. It must not run
// concurrently with another call on the same Frontier.
package merkle

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// MaxSize is the largest number of leaves of a tree: 2⁶²−1, about 4.6·10¹⁸. Beyond it, the
// arithmetic of tlog overflows int64, and some of its functions, including CheckRecord and
// CheckTree, never return. A size from outside must therefore be compared with MaxSize before it is
// passed to tlog. [Open] and [Read] do so.
const MaxSize = 1<<62 - 1

// maxStored is the number of hashes stored for a tree of MaxSize leaves:
// tlog.StoredHashCount(MaxSize).
const maxStored = 1<<63 - 64

// ErrSize is returned if a tree would have more than [MaxSize] leaves.
var ErrSize = errors.New("tree is too large")

// Frontier is the frontier of a growing tree: the hashes of its maximal complete subtrees, at most
// 62. The number of leaves of the tree is the sum of theirs. The frontier suffices to append a leaf
// and to compute the root, so neither reads stored hashes. The zero value is the frontier of the
// empty tree.
type Frontier struct {
	size      uint64
	hashes    []tlog.Hash // the hash of the widest subtree comes first
	completed []tlog.Hash // the hashes that the last Append returned
}

// LoadFrontier returns the frontier of the tree with size leaves, 0 to [MaxSize]. It reads at most
// 62 hashes from r in one call, in ascending order of their tlog indexes. For an empty tree it
// reads nothing. It does not verify the hashes: the caller must compare [Frontier.Root] with a
// trusted root. It returns [ErrSize], or the error of r.
func LoadFrontier(size uint64, r tlog.HashReader) (*Frontier, error) {
	if err := checkSize(size); err != nil {
		return nil, err
	}
	hashes, err := read(r, stored(0, size, nil))
	if err != nil {
		return nil, err
	}
	return &Frontier{size: size, hashes: slices.Clone(hashes)}, nil // a copy, because r may reuse its slice
}

// Append adds a leaf, given as its [tlog.RecordHash]. It returns the hashes that the leaf
// completes, from the leaf up: [Completes] of them. The caller stores them from index
// tlog.StoredHashIndex(0, size before) on. The slice is valid until the next call. If the tree is
// full, Append returns [ErrSize] and leaves the frontier unchanged.
func (f *Frontier) Append(leaf tlog.Hash) ([]tlog.Hash, error) {
	if err := checkSize(f.size + 1); err != nil {
		return nil, err
	}
	// The leaf is merged with the narrowest subtree if both have the same width. The result is
	// merged with the next subtree in the same way, and so on. It is like adding one to a binary
	// counter: there is a merge for each 1 at the end of the binary size.
	merges := Completes(f.size) - 1
	unmerged := len(f.hashes) - merges
	if unmerged < 0 {
		return nil, fmt.Errorf("the frontier of a tree of %d leaves has %d hashes", f.size, len(f.hashes))
	}
	completed := append(f.completed[:0], leaf)
	for i, left := range slices.Backward(f.hashes[unmerged:]) {
		completed = append(completed, HashNode(left, completed[merges-1-i]))
	}
	f.hashes = append(f.hashes[:unmerged], completed[merges])
	f.size++
	f.completed = completed
	return completed, nil
}

// HashLeaf returns the [tlog.RecordHash] of the concatenated data, without allocating for short
// data.
func HashLeaf(data ...[]byte) tlog.Hash {
	const leaf = 0 // the prefix of RFC 6962
	all := append(make([]byte, 0, 192), leaf)
	for _, piece := range data {
		all = append(all, piece...)
	}
	return sha256.Sum256(all)
}

// HashNode returns [tlog.NodeHash] of two hashes, without allocating.
func HashNode(left, right tlog.Hash) tlog.Hash {
	const node = 1 // the prefix of RFC 6962
	var data [1 + 2*tlog.HashSize]byte
	data[0] = node
	copy(data[1:], left[:])
	copy(data[1+tlog.HashSize:], right[:])
	return sha256.Sum256(data[:])
}

// Size returns the number of leaves.
func (f *Frontier) Size() uint64 { return f.size }

// Root returns the hash of the whole tree. For the empty tree, it is the SHA-256 of no bytes (RFC
// 6962, section 2.1).
func (f *Frontier) Root() tlog.Hash {
	if f.size == 0 {
		return sha256.Sum256(nil)
	}
	return join(f.hashes)
}

// Clone returns an independent copy.
func (f *Frontier) Clone() *Frontier {
	return &Frontier{size: f.size, hashes: slices.Clone(f.hashes)}
}

// Completes returns how many hashes are stored for the leaf with index n, counted from 0. These are
// its own hash, and one for each subtree that it completes. The number is 1 + the number of
// trailing ones of n, so 1 to 62 for any leaf of a tree.
func Completes(n uint64) int { return 1 + bits.TrailingZeros64(^n) }

// Locate returns the origin of the hash with a tlog index. leaf is the index, from 0, of the leaf
// whose [Frontier.Append] returned the hash. at is the hash's position in that result, from 0. It
// is also the level of the hash's subtree, which has 2^at leaves and ends with that leaf. For an
// invalid index, below 0 or after the last hash of [MaxSize] leaves, at is −1.
func Locate(index int64) (leaf uint64, at int) {
	if index < 0 || index >= maxStored {
		return 0, -1 // tlog panics for a negative index, and never returns for the largest ones
	}
	// The hash is that of the leaves n·2^level to (n+1)·2^level − 1.
	level, n := tlog.SplitStoredHashIndex(index)
	return (uint64(n)+1)<<level - 1, level
}

// checkSize returns [ErrSize] if a tree cannot have that many leaves.
func checkSize(size uint64) error {
	if size > MaxSize {
		return fmt.Errorf("%w: %d leaves, at most %d are possible", ErrSize, size, uint64(MaxSize))
	}
	return nil
}

// stored appends to indexes the tlog indexes of the hashes that make up the hash of the leaves [lo,
// hi). They are the hashes of the range's maximal complete subtrees, the widest first. lo must be a
// multiple of the smallest power of 2 that is not below the width hi − lo. That is true for every
// subtree of a tree.
func stored(lo, hi uint64, indexes []int64) []int64 {
	for lo < hi {
		level := bits.Len64(hi-lo) - 1 // 2^level is the largest power of 2 that is not above the width
		indexes = append(indexes, tlog.StoredHashIndex(level, int64(lo>>level)))
		lo += 1 << level
	}
	return indexes
}

// read returns r.ReadHashes(indexes), or an error if r returns another number of hashes than there
// are indexes. Without indexes, it does not call r.
func read(r tlog.HashReader, indexes []int64) ([]tlog.Hash, error) {
	if len(indexes) == 0 {
		return nil, nil
	}
	hashes, err := r.ReadHashes(indexes)
	if err != nil {
		return nil, err
	}
	if len(hashes) != len(indexes) {
		return nil, fmt.Errorf("read %d stored hashes: the reader returned %d", len(indexes), len(hashes))
	}
	return hashes, nil
}
