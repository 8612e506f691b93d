package merkle

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
)

// checkProof proves the leaves, and checks that the proof gives the root.
func checkProof(t testing.TB, l *log, size uint64, leaves []uint64) []tlog.Hash {
	t.Helper()
	proof := l.prove(t, size, leaves)
	root, err := Root(size, l.at(leaves), proof)
	check.Need(t, err == nil, "leaves %d of %d: %v", leaves, size, err)
	check.Need(t, root == l.roots[size], "leaves %d of %d: root %v, want %v", leaves, size, root, l.roots[size])
	return proof
}

// checkAltered changes each part of a proof, of its leaves and of the size, one at a time. Only a
// size that puts the leaves at the same places may give the right root.
func checkAltered(t testing.TB, l *log, size uint64, leaves []uint64, proof []tlog.Hash, bit int) {
	t.Helper()
	about := l.at(leaves)
	same := func(size uint64, about []Leaf, proof []tlog.Hash) bool {
		root, err := Root(size, about, proof)
		check.Need(t, err == nil || errors.Is(err, ErrProof),
			"leaves %d of %d: the error %v is not ErrProof", leaves, size, err)
		return err == nil && root == l.roots[len(l.roots)-1]
	}
	check.Need(t, same(size, about, proof), "leaves %d of %d: refused before anything was changed", leaves, size)
	for i, h := range proof {
		changed := slices.Clone(proof)
		changed[i] = flip(h, bit)
		check.Need(t, !same(size, about, changed), "leaves %d of %d: accepted with hash %d changed", leaves, size, i)
		if i > 0 {
			changed = slices.Clone(proof)
			changed[i-1], changed[i] = h, proof[i-1]
			check.Need(t, !same(size, about, changed),
				"leaves %d of %d: accepted with the hashes %d and %d swapped", leaves, size, i-1, i)
		}
		if _, err := Root(size, about, slices.Delete(slices.Clone(proof), i, i+1)); !errors.Is(err, ErrProof) {
			t.Fatalf("leaves %d of %d: hash %d is missing: error %v, want ErrProof", leaves, size, i, err)
		}
	}
	for i := range len(proof) + 1 {
		if _, err := Root(size, about, slices.Insert(slices.Clone(proof), i, l.leaves[0])); !errors.Is(err, ErrProof) {
			t.Fatalf("leaves %d of %d: one more hash at %d: error %v, want ErrProof", leaves, size, i, err)
		}
	}
	for i := range about {
		changed := slices.Clone(about)
		changed[i].Hash = flip(about[i].Hash, bit)
		check.Need(t, !same(size, changed, proof),
			"leaves %d of %d: accepted with leaf hash %d changed", leaves, size, i)
		for index := range size + 2 {
			changed[i] = Leaf{index, about[i].Hash}
			if index != about[i].Index && same(size, changed, proof) {
				t.Fatalf("leaves %d of %d: accepted with index %d instead of %d", leaves, size, index, leaves[i])
			}
		}
	}
	for other := range 2*size + 2 {
		want := other > leaves[len(leaves)-1] && samePlaces(size, leaves, other, leaves)
		if got := same(other, about, proof); got != want {
			t.Fatalf("leaves %d of %d: accepted with size %d is %t, want %t", leaves, size, other, got, want)
		}
	}
}

// required returns the set of hashes that are necessary for the root, computed from inclusion
// proofs: all hashes of these proofs that cannot be computed from the leaves.
func required(t testing.TB, l *log, size uint64, leaves []uint64) map[tlog.Hash]bool {
	t.Helper()
	set := make(map[tlog.Hash]bool)
	var above []tlog.Hash
	for _, leaf := range leaves {
		siblings := check.Value(tlog.ProveRecord(int64(size), int64(leaf), l))(t)
		sides, h := path(leaf, size), l.leaves[leaf]
		above = append(above, h)
		for i, sibling := range siblings { // from the leaf up
			set[sibling] = true
			if sides[len(sides)-1-i] == 'L' {
				h = tlog.NodeHash(h, sibling)
			} else {
				h = tlog.NodeHash(sibling, h)
			}
			above = append(above, h)
		}
		check.Need(t, h == l.roots[size], "the path %q of leaf %d of %d is wrong", sides, leaf, size)
	}
	for _, h := range above {
		delete(set, h)
	}
	return set
}

func checkMinimal(t testing.TB, l *log, size uint64, leaves []uint64, proof []tlog.Hash) {
	t.Helper()
	want := required(t, l, size, leaves)
	check.Need(t, len(proof) == len(want),
		"leaves %d of %d: the proof has %d hashes, want %d", leaves, size, len(proof), len(want))
	for _, h := range proof {
		check.Need(t, want[h], "leaves %d of %d: the hash %v is unnecessary or repeated", leaves, size, h)
		delete(want, h)
	}
}

func TestProve_AllSubsets_ProofsAreMinimal(t *testing.T) {
	for size := uint64(1); size <= 9; size++ {
		l := newLog(t, int(size))
		for set := uint64(1); set < 1<<size; set++ {
			leaves := subset(set)
			proof := checkProof(t, l, size, leaves)
			checkMinimal(t, l, size, leaves, proof)
			checkAltered(t, l, size, leaves, proof, int(set%256))
		}
	}
}

func TestProve_RandomSubsets_ProofsAreMinimal(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	rounds := 20 / testenv.Step(10)
	for size := uint64(10); size <= 130; size++ {
		l := newLog(t, int(size))
		for range rounds {
			chance := r.Float64()
			leaves := []uint64{r.Uint64N(size)}
			for leaf := range size {
				if r.Float64() < chance*chance { // mostly few, sometimes nearly all
					leaves = append(leaves, leaf)
				}
			}
			slices.Sort(leaves)
			leaves = slices.Compact(leaves)
			proof := checkProof(t, l, size, leaves)
			checkMinimal(t, l, size, leaves, proof)
			if len(leaves) <= 8 && size%10 < 3 {
				checkAltered(t, l, size, leaves, proof, r.IntN(256))
			}
		}
	}
}

func TestProve_Ranges_GiveTheRoot(t *testing.T) {
	l := newLog(t, 130)
	small, large := uint64(testenv.Tries(36, 70, 70)), uint64(testenv.Tries(128, 125, 125))
	for size := uint64(1); size <= 130; size++ {
		if size > small && size < large || testenv.Short() && size > 20 && size%32 > 1 {
			continue // the time grows with the cube of the size
		}
		for lo := range size {
			for hi := lo + 1; hi <= size; hi++ {
				proof := checkProof(t, l, size, interval(lo, hi))
				check.That(t, lo != 0 || hi != size || len(proof) == 0,
					"all %d leaves need %d hashes besides", size, len(proof))
			}
		}
	}
}

// Prove calls its reader once, with rising indexes, or not at all if it needs no hashes.
func TestProve_ReadsOnceInAscendingOrder(t *testing.T) {
	l := newLog(t, 40)
	for size := uint64(1); size <= 40; size++ {
		for lo := range size {
			for hi := lo + 1; hi <= size; hi++ {
				var asked []int64
				_, err := Prove(size, interval(lo, hi), tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
					check.That(t, asked == nil && len(indexes) != 0 && slices.IsSorted(indexes),
						"leaves %d to %d of %d: read of %d after %d", lo, hi, size, indexes, asked)
					asked = slices.Clone(indexes)
					return l.ReadHashes(indexes)
				}))
				check.Must(t, err)
			}
		}
	}
	broken := errors.New("broken disk")
	_, err := Prove(3, []uint64{1}, tlog.HashReaderFunc(func([]int64) ([]tlog.Hash, error) { return nil, broken }))
	wantError(t, err, broken)
	if _, err := Prove(3, []uint64{1}, tlog.HashReaderFunc(func([]int64) ([]tlog.Hash, error) { return make([]tlog.Hash, 3), nil })); err == nil {
		t.Error("three hashes were accepted instead of two")
	}
}

func TestProve_InvalidLeavesOrSize_IsErrProof(t *testing.T) {
	l := newLog(t, 8)
	for _, test := range []struct {
		name   string
		size   uint64
		leaves []uint64
	}{
		{"no leaf", 8, nil},
		{"empty tree", 0, []uint64{0}},
		{"no leaf of the empty tree", 0, nil},
		{"leaf beyond the tree", 8, []uint64{2, 8}},
		{"leaf far beyond the tree", 8, []uint64{1<<64 - 1}},
		{"same leaf twice", 8, []uint64{3, 3}},
		{"last index twice", 1, []uint64{0, 0}},
		{"falling indexes", 8, []uint64{3, 2}},
		{"too large a tree", MaxSize + 1, []uint64{0}},
		{"largest number", 1<<64 - 1, []uint64{0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Prove(test.size, test.leaves, l)
			wantError(t, err, ErrProof)
			leaves := make([]Leaf, len(test.leaves))
			for i, index := range test.leaves {
				leaves[i].Index = index
			}
			for length := range 64 {
				_, err := Root(test.size, leaves, make([]tlog.Hash, length))
				wantError(t, err, ErrProof)
			}
		})
	}
}

// Proofs in the largest trees give the root, and those of single leaves agree with tlog.
func TestProve_LargestTrees_AgreeWithTlog(t *testing.T) {
	u, r := newUniform(), rand.New(rand.NewPCG(3, 4))
	for _, size := range []uint64{MaxSize, MaxSize - 1, 1 << 61, 1<<61 + 1, 1<<61 - 1, 1<<40 + 1<<20 + 3} {
		root := check.Value(tlog.TreeHash(int64(size), u))(t)
		for _, leaves := range [][]uint64{{0}, {size - 1}, {0, size - 1}, {size / 2, size/2 + 1, size - 2}, {size / 3, size / 3 * 2}} {
			proof := check.Value(Prove(size, leaves, u))(t)
			about := make([]Leaf, len(leaves))
			for i, index := range leaves {
				about[i] = Leaf{index, u.level[0]}
			}
			if got, err := Root(size, about, proof); err != nil || got != root {
				t.Errorf("leaves %d of %d: root %v (%v), want %v", leaves, size, got, err, root)
			}
			if limit := 62 * len(leaves); len(proof) > limit {
				t.Errorf("leaves %d of %d: %d hashes, want at most %d", leaves, size, len(proof), limit)
			}
		}
		for range 50 {
			checkAgainstRecord(t, r.Uint64N(size), size, randomHashes(r, 1)[0], r)
		}
	}
}

func randomHashes(r *rand.Rand, n int) []tlog.Hash {
	hashes := make([]tlog.Hash, n)
	for i := range hashes {
		for j := 0; j < tlog.HashSize; j += 8 {
			binary.LittleEndian.PutUint64(hashes[i][j:], r.Uint64())
		}
	}
	return hashes
}

// checkAgainstRecord checks with tlog the root that a random proof for one leaf implies.
func checkAgainstRecord(t testing.TB, n, size uint64, leaf tlog.Hash, r *rand.Rand) {
	t.Helper()
	sides := path(n, size)
	record := tlog.RecordProof(randomHashes(r, len(sides))) // from the leaf up
	// In a walk from the root, the siblings on the left precede the leaf, and those on the right
	// follow it.
	var proof []tlog.Hash
	for depth := range len(sides) {
		if sides[depth] == 'R' {
			proof = append(proof, record[len(sides)-1-depth])
		}
	}
	for i, h := range record {
		if sides[len(sides)-1-i] == 'L' {
			proof = append(proof, h)
		}
	}
	root, err := Root(size, []Leaf{{n, leaf}}, proof)
	check.Need(t, err == nil, "leaf %d of %d: %v", n, size, err)
	err = tlog.CheckRecord(record, int64(size), root, int64(n), leaf)
	check.Need(t, err == nil, "leaf %d of %d: the root is not the one of tlog: %v", n, size, err)
}

// Long input that is wrong only at its end costs Root little memory.
func TestRoot_LongWrongInput_TakesLittleMemory(t *testing.T) {
	const count = 2000
	leaves := make([]Leaf, count)
	for i := range leaves {
		leaves[i].Index = uint64(i) * (MaxSize / count)
	}
	for _, length := range []int{0, 1, count * 20, count * 64} {
		_, err := Root(MaxSize, leaves, make([]tlog.Hash, length))
		wantError(t, err, ErrProof)
	}
	allocs := testing.AllocsPerRun(1, func() { _, _ = Root(MaxSize, leaves, make([]tlog.Hash, 10)) })
	check.That(t, allocs <= 20, "%v allocations for a proof that is too short", allocs)
}

// FuzzRoot reads its input as a size, leaves and a proof. There must be no panic and no hang, and
// any accepted proof must lose its root, or be refused, when anything in it changes.
func FuzzRoot(f *testing.F) {
	l := newLog(f, 20)
	for _, leaves := range [][]uint64{{0}, {19}, {3, 4, 17}, {0, 19}, interval(0, 20)} {
		var hashes []byte
		for _, h := range l.prove(f, 20, leaves) {
			hashes = append(hashes, h[:]...)
		}
		f.Add(uint64(20), packed(leaves), hashes)
		f.Add(uint64(21), packed(leaves), hashes)
		f.Add(uint64(MaxSize), packed(leaves), hashes)
	}
	f.Add(uint64(0), []byte{}, []byte{})
	f.Add(uint64(1<<62), packed([]uint64{1<<62 - 1}), make([]byte, 62*tlog.HashSize))
	f.Add(uint64(MaxSize), packed([]uint64{MaxSize - 1}), make([]byte, 61*tlog.HashSize))
	f.Add(uint64(1<<64-1), packed([]uint64{5, 4}), []byte{1})
	f.Fuzz(func(t *testing.T, size uint64, indexes, hashes []byte) {
		var leaves []Leaf
		for ; len(indexes) >= 8; indexes = indexes[8:] {
			index := binary.LittleEndian.Uint64(indexes)
			leaves = append(leaves, Leaf{index, tlog.RecordHash(indexes[:8])})
		}
		var proof []tlog.Hash
		for ; len(hashes) >= tlog.HashSize; hashes = hashes[tlog.HashSize:] {
			proof = append(proof, tlog.Hash(hashes))
		}
		root, err := Root(size, leaves, proof)
		if err != nil {
			wantError(t, err, ErrProof)
			return
		}
		check.Need(t, len(proof) <= 62*len(leaves), "%d hashes were accepted for %d leaves", len(proof), len(leaves))
		for _, leaf := range leaves {
			check.Need(t, leaf.Index < size && size <= MaxSize, "leaf %d of %d was accepted", leaf.Index, size)
		}
		_, err = Root(size, leaves, append(proof[:len(proof):len(proof)], root))
		check.Need(t, errors.Is(err, ErrProof), "a hash too many was accepted: %v", err)
		for i := range min(len(proof), 64) {
			_, err := Root(size, leaves, slices.Delete(slices.Clone(proof), i, i+1))
			check.Need(t, errors.Is(err, ErrProof), "a missing hash was accepted: %v", err)
			changed := slices.Clone(proof)
			changed[i] = flip(changed[i], 0)
			other, err := Root(size, leaves, changed)
			check.Need(t, err == nil && other != root, "hash %d does not matter (%v)", i, err)
		}
		checkAgainstRecord(t, leaves[0].Index, size, leaves[0].Hash, rand.New(rand.NewPCG(size, 5)))
	})
}

func packed(indexes []uint64) []byte {
	var b []byte
	for _, index := range indexes {
		b = binary.LittleEndian.AppendUint64(b, index)
	}
	return b
}
