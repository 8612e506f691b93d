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

	"github.com/sluicedp/sluice/internal/pace"
)

// most is the size up to which every tree is compared with the second implementation.
const most = 512

// second is that implementation, over the same leaves.
func second(l *log) *testonly.Tree {
	tree := testonly.New(rfc6962.DefaultHasher)
	for _, leaf := range l.leaves {
		tree.Append(leaf[:])
	}
	return tree
}

// raw returns hashes as the second implementation has them.
func raw(hashes []tlog.Hash) [][]byte {
	slices := make([][]byte, len(hashes))
	for i := range hashes {
		slices[i] = hashes[i][:]
	}
	return slices
}

func TestRootsAgree(t *testing.T) {
	l := newLog(t, most)
	tree := second(l)
	for size := range l.roots {
		if want := tree.HashAt(uint64(size)); string(l.roots[size][:]) != string(want) {
			t.Errorf("root of %d leaves is %x, want %x", size, l.roots[size], want)
		}
	}
	if want := tlog.Hash(sha256.Sum256(nil)); l.roots[0] != want {
		t.Errorf("root of the empty tree is %v, want %v", l.roots[0], want)
	}
}

// pairs calls check with all pairs 0 ≤ a < b ≤ most, or if hurried, with some of them.
func pairs(check func(a, b uint64)) {
	step := uint64(pace.Stride(3, 7)) // no power of 2, so that every pattern of bits remains
	for b := uint64(1); b <= most; b++ {
		for a := b % step; a < b; a += step {
			check(a, b)
		}
	}
}

func TestProofsAgree(t *testing.T) {
	l := newLog(t, most)
	tree := second(l)
	pairs(func(a, b uint64) {
		same := func(what string, ours []tlog.Hash, err error) func([][]byte, error) {
			must(t, err)
			return func(theirs [][]byte, err error) {
				must(t, err)
				if !slices.EqualFunc(raw(ours), theirs, slices.Equal[[]byte]) {
					t.Fatalf("%s %d of %d: proofs differ", what, a, b)
				}
			}
		}
		inclusion, err := tlog.ProveRecord(int64(b), int64(a), l)
		same("inclusion of leaf", inclusion, err)(tree.InclusionProof(a, b))
		must(t, proof.VerifyInclusion(rfc6962.DefaultHasher, a, b, l.leaves[a][:], raw(inclusion), l.roots[b][:]))
		older := a + 1 // tlog has no proof for the empty tree
		consistency, err := tlog.ProveTree(int64(b), int64(older), l)
		same("consistency after leaf", consistency, err)(tree.ConsistencyProof(older, b))
		must(t, proof.VerifyConsistency(rfc6962.DefaultHasher, older, b, raw(consistency), l.roots[older][:], l.roots[b][:]))
	})
}

func TestLoadEdge(t *testing.T) {
	l := newLog(t, 300)
	grown := new(Edge)
	for size := range uint64(301) {
		// The reader's slice is overwritten, since an edge must not keep it.
		var asked []int64
		var lent []tlog.Hash
		loaded, err := LoadEdge(size, tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
			if asked != nil || len(indexes) == 0 {
				t.Errorf("size %d: needless question %d", size, indexes)
			}
			asked = slices.Clone(indexes)
			var err error
			lent, err = l.ReadHashes(indexes)
			return lent, err
		}))
		if err != nil {
			t.Fatalf("size %d: %v", size, err)
		}
		clear(lent)
		if !slices.IsSorted(asked) {
			t.Errorf("size %d: hashes %d were asked for out of order", size, asked)
		}
		if loaded.size != grown.size || !slices.Equal(loaded.hashes, grown.hashes) {
			t.Fatalf("size %d: the loaded edge is not the grown one", size)
		}
		if root := loaded.Root(); root != l.roots[size] || loaded.Size() != size {
			t.Fatalf("size %d: root %v of %d leaves, want %v", size, root, loaded.Size(), l.roots[size])
		}
		if size == 300 {
			break
		}
		fromLoaded, err1 := loaded.Append(l.leaves[size])
		fromGrown, err2 := grown.Append(l.leaves[size])
		stored, err3 := tlog.StoredHashesForRecordHash(int64(size), l.leaves[size], l)
		must(t, errors.Join(err1, err2, err3))
		if !slices.Equal(fromLoaded, stored) || !slices.Equal(fromGrown, stored) {
			t.Fatalf("leaf %d: the edges complete other hashes than tlog", size)
		}
	}
}

func TestLoadEdgeFails(t *testing.T) {
	broken := errors.New("broken disk")
	if _, err := LoadEdge(3, tlog.HashReaderFunc(func([]int64) ([]tlog.Hash, error) { return nil, broken })); !errors.Is(err, broken) {
		t.Errorf("error %v, want the reader's", err)
	}
	if _, err := LoadEdge(3, tlog.HashReaderFunc(func([]int64) ([]tlog.Hash, error) { return make([]tlog.Hash, 1), nil })); err == nil {
		t.Error("one hash was taken for two")
	}
	for _, size := range []uint64{MaxSize + 1, math.MaxInt64, math.MaxUint64} {
		_, err := LoadEdge(size, newUniform())
		wantError(t, err, ErrSize)
	}
}

// TestLargestTree goes to the end of the range, where the arithmetic of tlog is about to overflow.
func TestLargestTree(t *testing.T) {
	u := newUniform()
	e, err := LoadEdge(MaxSize-1, u)
	must(t, err)
	completed, err := e.Append(u.level[0])
	if err != nil || len(completed) != Completes(MaxSize-1) {
		t.Fatalf("last leaf completes %d hashes (%v)", len(completed), err)
	}
	root := e.Root()
	if want, err := tlog.TreeHash(MaxSize, u); err != nil || root != want {
		t.Errorf("root %v, want %v (%v)", root, want, err)
	}
	_, err = e.Append(u.level[0])
	wantError(t, err, ErrSize)
	if e.Root() != root || e.Size() != MaxSize {
		t.Error("the refused leaf changed the edge")
	}
}

func TestClone(t *testing.T) {
	l := newLog(t, 40)
	other := tlog.RecordHash([]byte("another event"))
	for size := range uint64(40) {
		e, err := LoadEdge(size, l)
		must(t, err)
		clone := e.Clone()
		if _, err := clone.Append(other); err != nil {
			t.Fatal(err)
		}
		if e.Root() != l.roots[size] || e.Size() != size {
			t.Fatalf("size %d: growing the clone changed the edge", size)
		}
		if _, err := e.Append(l.leaves[size]); err != nil {
			t.Fatal(err)
		}
		if clone.Root() == l.roots[size+1] || clone.Size() != size+1 {
			t.Fatalf("size %d: growing the edge changed the clone", size)
		}
		if root := e.Root(); root != l.roots[size+1] {
			t.Fatalf("size %d: root %v after the clone grew, want %v", size, root, l.roots[size+1])
		}
	}
}

// An edge that lacks hashes says so, and does not grow. Only a fault in this package could make one.
func TestBrokenEdge(t *testing.T) {
	broken := &Edge{size: 3}
	if hashes, err := broken.Append(tlog.RecordHash(nil)); err == nil || broken.size != 3 {
		t.Errorf("an edge without hashes completes %v, and has %d leaves now", hashes, broken.size)
	}
}

func TestLocate(t *testing.T) {
	index := int64(0)
	for leaf := range uint64(3000) {
		for at := range Completes(leaf) {
			if gotLeaf, gotAt := Locate(index); gotLeaf != leaf || gotAt != at {
				t.Fatalf("hash %d comes from leaf %d at %d, want leaf %d at %d", index, gotLeaf, gotAt, leaf, at)
			}
			index++
		}
		if want := tlog.StoredHashCount(int64(leaf) + 1); index != want {
			t.Fatalf("%d hashes up to leaf %d, want %d", index, leaf, want)
		}
	}
}

func TestLocateExtremes(t *testing.T) {
	if count := tlog.StoredHashCount(MaxSize); count != maxStored {
		t.Errorf("the largest tree has %d hashes, not %d", count, int64(maxStored))
	}
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
		if got := Completes(n); got != want {
			t.Errorf("leaf %d completes %d hashes, want %d", n, got, want)
		}
	}
}
