package merkle

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
)

// log is a tree that was built with a frontier. It has the stored hashes by tlog index, and the
// root at each size.
type log struct {
	stored []tlog.Hash
	roots  []tlog.Hash // roots[n] is that of n leaves
	leaves []tlog.Hash
}

// newLog builds a tree with size different leaves.
func newLog(t testing.TB, size int) *log {
	t.Helper()
	l, e := new(log), new(Frontier)
	for n := range size + 1 {
		l.roots = append(l.roots, e.Root())
		if n == size {
			break
		}
		leaf := tlog.RecordHash(fmt.Appendf(nil, "event %d", n))
		hashes := check.Value(e.Append(leaf))(t)
		l.leaves = append(l.leaves, leaf)
		l.stored = append(l.stored, hashes...)
	}
	return l
}

func (l *log) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		if index < 0 || index >= int64(len(l.stored)) {
			return nil, fmt.Errorf("no hash %d of %d", index, len(l.stored))
		}
		hashes[i] = l.stored[index]
	}
	return hashes, nil
}

// at returns the leaves with these indexes, and their hashes.
func (l *log) at(indexes []uint64) []Leaf {
	leaves := make([]Leaf, len(indexes))
	for i, index := range indexes {
		leaves[i] = Leaf{index, l.leaves[index]}
	}
	return leaves
}

func (l *log) prove(t testing.TB, size uint64, leaves []uint64) []tlog.Hash {
	t.Helper()
	proof, err := Prove(size, leaves, l)
	check.Need(t, err == nil, "Prove(%d, %d): %v", size, leaves, err)
	return proof
}

// uniform reads a tree with any number of equal leaves, in which the hash of a complete subtree
// depends only on its level.
type uniform struct{ level [62]tlog.Hash }

func newUniform() *uniform {
	u := new(uniform)
	u.level[0] = tlog.RecordHash([]byte("again"))
	for i := range u.level[1:] {
		u.level[i+1] = tlog.NodeHash(u.level[i], u.level[i])
	}
	return u
}

func (u *uniform) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		level, _ := tlog.SplitStoredHashIndex(index)
		hashes[i] = u.level[level]
	}
	return hashes, nil
}

// path returns the side of each split on which a leaf is, L or R, from the root down. It uses the
// bits of the index (RFC 9162, section 2.1.3.2), independently of the recursion under test.
func path(index, size uint64) string {
	inner := bits.Len64(index ^ (size - 1)) // above these levels the leaf is at the right end of the tree
	var sides []byte
	for range bits.OnesCount64(index >> inner) {
		sides = append(sides, 'R')
	}
	for level := inner - 1; level >= 0; level-- {
		sides = append(sides, "LR"[index>>level&1])
	}
	return string(sides)
}

// samePlaces reports whether two sets of equally many leaves have the same paths from the root.
func samePlaces(size1 uint64, leaves1 []uint64, size2 uint64, leaves2 []uint64) bool {
	return slices.EqualFunc(leaves1, leaves2, func(a, b uint64) bool { return path(a, size1) == path(b, size2) })
}

// subset returns the positions of the bits that are set.
func subset(set uint64) []uint64 {
	var members []uint64
	for ; set != 0; set &= set - 1 {
		members = append(members, uint64(bits.TrailingZeros64(set)))
	}
	return members
}

func interval(lo, hi uint64) []uint64 {
	var members []uint64
	for i := lo; i < hi; i++ {
		members = append(members, i)
	}
	return members
}

// flip returns the hash with one bit changed.
func flip(h tlog.Hash, bit int) tlog.Hash {
	h[bit/8] ^= 1 << (bit % 8)
	return h
}

func wantError(t testing.TB, err, want error) {
	t.Helper()
	check.Need(t, errors.Is(err, want), "error %v, want %v", err, want)
}
