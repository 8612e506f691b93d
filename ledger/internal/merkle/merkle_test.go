package merkle

import (
	"crypto/sha256"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
)

// most is the largest size for which trees are compared with the second implementation.
const most = 512

// second returns a tree of the second implementation with the same leaves.
func second(l *log) *testonly.Tree {
	tree := testonly.New(rfc6962.DefaultHasher)
	for _, leaf := range l.leaves {
		tree.Append(leaf[:])
	}
	return tree
}

// raw returns hashes in the form of the second implementation.
func raw(hashes []tlog.Hash) [][]byte {
	slices := make([][]byte, len(hashes))
	for i := range hashes {
		slices[i] = hashes[i][:]
	}
	return slices
}

func TestFrontierRoot_AgreesWithSecondImplementation(t *testing.T) {
	l := newLog(t, most)
	tree := second(l)
	for size := range l.roots {
		if want := tree.HashAt(uint64(size)); string(l.roots[size][:]) != string(want) {
			t.Errorf("root of %d leaves is %x, want %x", size, l.roots[size], want)
		}
	}
	want := tlog.Hash(sha256.Sum256(nil))
	check.That(t, l.roots[0] == want, "root of the empty tree is %v, want %v", l.roots[0], want)
}

// pairs calls check with all pairs 0 ≤ a < b ≤ most, or in the quick form with some of them.
func pairs(check func(a, b uint64)) {
	step := uint64(testenv.Stride(3, 7)) // no power of 2, so that every pattern of bits remains
	for b := uint64(1); b <= most; b++ {
		for a := b % step; a < b; a += step {
			check(a, b)
		}
	}
}

func TestProofs_AgreeWithSecondImplementation(t *testing.T) {
	l := newLog(t, most)
	tree := second(l)
	pairs(func(a, b uint64) {
		same := func(what string, ours []tlog.Hash, err error) func([][]byte, error) {
			check.Must(t, err)
			return func(theirs [][]byte, err error) {
				check.Must(t, err)
				check.Need(t, slices.EqualFunc(raw(ours), theirs, slices.Equal[[]byte]),
					"%s %d of %d: proofs differ", what, a, b)
			}
		}
		inclusion, err := tlog.ProveRecord(int64(b), int64(a), l)
		same("inclusion of leaf", inclusion, err)(tree.InclusionProof(a, b))
		check.Must(t, proof.VerifyInclusion(rfc6962.DefaultHasher, a, b, l.leaves[a][:], raw(inclusion), l.roots[b][:]))
		older := a + 1 // tlog has no proof for the empty tree
		consistency, err := tlog.ProveTree(int64(b), int64(older), l)
		same("consistency after leaf", consistency, err)(tree.ConsistencyProof(older, b))
		check.Must(t, proof.VerifyConsistency(rfc6962.DefaultHasher, older, b, raw(consistency), l.roots[older][:], l.roots[b][:]))
	})
}

func TestLoadFrontier_EqualsTheGrownFrontier(t *testing.T) {
	l := newLog(t, 300)
	grown := new(Frontier)
	for size := range uint64(301) {
		// The reader's slice is overwritten later, because a frontier must not keep it.
		var asked []int64
		var lent []tlog.Hash
		loaded, err := LoadFrontier(size, tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
			check.That(t, asked == nil && len(indexes) != 0, "size %d: unnecessary read of %d", size, indexes)
			asked = slices.Clone(indexes)
			var err error
			lent, err = l.ReadHashes(indexes)
			return lent, err
		}))
		check.Need(t, err == nil, "size %d: %v", size, err)
		clear(lent)
		check.That(t, slices.IsSorted(asked), "size %d: hashes %d were read out of order", size, asked)
		check.Need(t, loaded.size == grown.size && slices.Equal(loaded.hashes, grown.hashes),
			"size %d: the loaded frontier differs from the grown one", size)
		if root := loaded.Root(); root != l.roots[size] || loaded.Size() != size {
			t.Fatalf("size %d: root %v of %d leaves, want %v", size, root, loaded.Size(), l.roots[size])
		}
		if size == 300 {
			break
		}
		fromLoaded, err1 := loaded.Append(l.leaves[size])
		fromGrown, err2 := grown.Append(l.leaves[size])
		stored, err3 := tlog.StoredHashesForRecordHash(int64(size), l.leaves[size], l)
		check.Must(t, errors.Join(err1, err2, err3))
		check.Need(t, slices.Equal(fromLoaded, stored) && slices.Equal(fromGrown, stored),
			"leaf %d: the frontiers complete other hashes than tlog", size)
	}
}

func TestLoadFrontier_ReaderFailsOrTooLarge_Fails(t *testing.T) {
	broken := errors.New("broken disk")
	_, err := LoadFrontier(3, tlog.HashReaderFunc(func([]int64) ([]tlog.Hash, error) { return nil, broken }))
	check.That(t, errors.Is(err, broken), "error %v, want the reader's", err)
	_, err = LoadFrontier(3, tlog.HashReaderFunc(func([]int64) ([]tlog.Hash, error) { return make([]tlog.Hash, 1), nil }))
	check.That(t, err != nil, "one hash was accepted instead of two")
	for _, size := range []uint64{MaxSize + 1, math.MaxInt64, math.MaxUint64} {
		_, err := LoadFrontier(size, newUniform())
		wantError(t, err, ErrSize)
	}
}

// At MaxSize the arithmetic of tlog just does not overflow. A further leaf is refused.
func TestFrontierAppend_LargestTree_IsErrSize(t *testing.T) {
	u := newUniform()
	e := check.Value(LoadFrontier(MaxSize-1, u))(t)
	completed, err := e.Append(u.level[0])
	check.Need(t, err == nil && len(completed) == Completes(MaxSize-1),
		"last leaf completes %d hashes (%v)", len(completed), err)
	root := e.Root()
	want, err := tlog.TreeHash(MaxSize, u)
	check.That(t, err == nil && root == want, "root %v, want %v (%v)", root, want, err)
	_, err = e.Append(u.level[0])
	wantError(t, err, ErrSize)
	check.That(t, e.Root() == root && e.Size() == MaxSize, "the refused leaf changed the frontier")
}

func TestFrontierClone_IsIndependent(t *testing.T) {
	l := newLog(t, 40)
	other := tlog.RecordHash([]byte("another event"))
	for size := range uint64(40) {
		e := check.Value(LoadFrontier(size, l))(t)
		clone := e.Clone()
		_, err := clone.Append(other)
		check.Need(t, err == nil, "%v", err)
		check.Need(t, e.Root() == l.roots[size] && e.Size() == size,
			"size %d: appending to the clone changed the frontier", size)
		_, err = e.Append(l.leaves[size])
		check.Need(t, err == nil, "%v", err)
		check.Need(t, clone.Root() != l.roots[size+1] && clone.Size() == size+1,
			"size %d: appending to the frontier changed the clone", size)
		if root := e.Root(); root != l.roots[size+1] {
			t.Fatalf("size %d: root %v after an append to the clone, want %v", size, root, l.roots[size+1])
		}
	}
}

// Append to a frontier that lacks hashes returns an error. Only a bug in this package could create
// one.
func TestFrontierAppend_HashesMissing_Fails(t *testing.T) {
	broken := &Frontier{size: 3}
	if hashes, err := broken.Append(tlog.RecordHash(nil)); err == nil || broken.size != 3 {
		t.Errorf("a frontier without hashes completes %v, and has %d leaves", hashes, broken.size)
	}
}

func TestLocate_EveryHash_ReturnsItsLeaf(t *testing.T) {
	index := int64(0)
	for leaf := range uint64(3000) {
		for at := range Completes(leaf) {
			if gotLeaf, gotAt := Locate(index); gotLeaf != leaf || gotAt != at {
				t.Fatalf("hash %d comes from leaf %d at %d, want leaf %d at %d", index, gotLeaf, gotAt, leaf, at)
			}
			index++
		}
		want := tlog.StoredHashCount(int64(leaf) + 1)
		check.Need(t, index == want, "%d hashes up to leaf %d, want %d", index, leaf, want)
	}
}

func TestLocate_ExtremeIndexes_DoNotOverflow(t *testing.T) {
	count := tlog.StoredHashCount(MaxSize)
	check.That(t, count == maxStored, "the largest tree has %d hashes, not %d", count, int64(maxStored))
	for _, test := range []struct {
		index int64
		leaf  uint64
		at    int
	}{
		{math.MinInt64, 0, -1},
		{-1, 0, -1},
		{tlog.StoredHashIndex(61, 0), 1<<61 - 1, 61},
		{maxStored - 1, MaxSize - 1, 0},
		{maxStored, 0, -1},
		{math.MaxInt64, 0, -1},
	} {
		if leaf, at := Locate(test.index); leaf != test.leaf || at != test.at {
			t.Errorf("hash %d comes from leaf %d at %d, want leaf %d at %d", test.index, leaf, at, test.leaf, test.at)
		}
	}
	for n, want := range map[uint64]int{0: 1, 1: 2, 2: 1, 1<<61 - 1: 62, MaxSize - 1: 1, math.MaxUint64: 65} {
		got := Completes(n)
		check.That(t, got == want, "leaf %d completes %d hashes, want %d", n, got, want)
	}
}
