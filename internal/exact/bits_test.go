package exact

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
)

// Bytes that were read are zero in the buffer; bytes that were not read yet are unchanged.
func TestBitsUint64_BitsRead_AreErased(t *testing.T) {
	bits := ReplayBits(func(p []byte) { copy(p, bytes.Repeat([]byte{0xa5}, len(p))) })
	for used := 8; used <= page; used += 8 {
		got := bits.Uint64()
		check.Need(t, got == 0xa5a5a5a5a5a5a5a5, "word %d is %#x", used/8, got)
		n := bytes.Count(bits.buf[:used], []byte{0})
		check.Need(t, n == used, "after %d bytes, %d of them are erased", used, n)
		if n := bytes.Count(bits.buf[used:], []byte{0xa5}); n != page-used {
			t.Fatalf("after %d bytes, %d of the others are left", used, n)
		}
	}
}

func TestMixtureDraw_BitsUsed_AreErased(t *testing.T) {
	bits := NewBits()
	mix := NewMixture(4, response(4, 1_000_000_000))
	for range 100 {
		mix.Draw(bits, 1, 2)
	}
	check.That(t, bits.used >= 100*8 && bytes.Count(bits.buf[:bits.used], []byte{0}) == bits.used,
		"of %d bytes used, %d are erased", bits.used, bytes.Count(bits.buf[:bits.used], []byte{0}))
}

func TestBitsUint64_SeveralPages_NoWordSkippedOrRepeated(t *testing.T) {
	next := byte(0)
	bits := ReplayBits(func(p []byte) {
		next++
		copy(p, bytes.Repeat([]byte{next}, len(p)))
	})
	for word := range 3 * page / 8 {
		want := 0x0101010101010101 * uint64(1+word*8/page)
		got := bits.Uint64()
		check.Need(t, got == want, "word %d is %#x, want %#x", word, got, want)
	}
}

type counter uint64

func (c *counter) Uint64() uint64 { *c++; return uint64(*c) }

func TestBitsFrom_Source_IsReplayed(t *testing.T) {
	one := BitsFrom(new(counter))
	two := BitsFrom(one)
	check.That(t, two == one, "a stream of bits is not itself")
	for want := range uint64(3 * page / 8) {
		got := one.Uint64()
		check.Need(t, got == want+1, "word %d is %d", want, got)
	}
	bits := BitsFrom(nil)
	first, second := bits.Uint64(), bits.Uint64()
	check.That(t, first != 0 || second != 0, "the operating system's bits are all 0")
}

// replaying maps each name that can replay bits to the only files outside tests that may contain
// it, which are the files that define or wrap it.
var replaying = map[string][]string{
	"ReplayBits": {"internal/exact/bits.go"},
	"BitsFrom":   {"internal/exact/bits.go", "mechanism/answer.go", "rrchain/law.go", "rrchain/finite/sampler.go"},
	// A literal can set the field Random, so code outside tests creates a sampler with new.
	"mechanism.Sampler{": nil, "rrchain.Sampler{": nil, "finite.Sampler{": nil,
	// An assignment to the field of an existing sampler.
	".Random = ": nil,
}

// The documentation of ReplayBits promises that randomness outside tests is the operating system's.
func TestModule_OutsideTests_ReplaysNoBits(t *testing.T) {
	root := os.DirFS(moduleRoot(t))
	for name, homes := range replaying {
		if homes == nil {
			continue
		}
		if text, err := fs.ReadFile(root, homes[0]); err != nil || !bytes.Contains(text, []byte("func "+name+"(")) {
			t.Errorf("%s does not define %s (%v)", homes[0], name, err)
		}
	}
	for _, fault := range replayers(t, root) {
		t.Error(fault)
	}
}

func TestReplayers_NamesOutsideTests_AreFound(t *testing.T) {
	source := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	module := fstest.MapFS{
		"internal/exact/bits.go":      source("func ReplayBits(fill func([]byte)) *Bits"),
		"internal/exact/bits_test.go": source("ReplayBits(nil)"),
		"rrchain/law_test.go":         source("Sampler{bits: exact.ReplayBits(nil)}"),
		"rrchain/law.go":              source("var bits = exact.ReplayBits(seeded)"),
		"cmd/ledgerctl/main.go":       source("sampler := rrchain.Sampler{Random: r}"),
		"ledger/ledger.go":            source("package ledger"),
		"ledger/draws.go":             source("s := &mechanism.Sampler{Random: r}"),
		"ledger/sets.go":              source("s := new(mechanism.Sampler); s.Random = r"),
		"ledger/sets_test.go":         source("s := new(mechanism.Sampler); s.Random = r"),
		"docs/ReplayBits.md":          source("ReplayBits"),
	}
	want := []string{
		"cmd/ledgerctl/main.go names rrchain.Sampler{", "ledger/draws.go names mechanism.Sampler{",
		"ledger/sets.go names .Random = ", "rrchain/law.go names ReplayBits",
	}
	got := replayers(t, module)
	check.That(t, slices.Equal(got, want), "found %q, want %q", got, want)
}

// replayers returns the Go files, other than tests, that contain a name that can replay bits.
func replayers(t *testing.T, module fs.FS) []string {
	var found []string
	check.Must(t, fs.WalkDir(module, ".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(module, file)
		for name, homes := range replaying {
			if !slices.Contains(homes, file) && bytes.Contains(text, []byte(name)) {
				found = append(found, file+" names "+name)
			}
		}
		return err
	}))
	return found
}

// moduleRoot returns the nearest directory above with a go.mod.
func moduleRoot(t *testing.T) string {
	dir := check.Value(os.Getwd())(t)
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		check.Need(t, dir != filepath.Dir(dir), "no go.mod above the test")
	}
}

// A χ² test of 1,600,000 draws for two different values, and as many for equal values. The same
// test detects weights that are wrong by 3 %.
func TestMixtureDraw_SystemRandomness_FollowsItsLaw(t *testing.T) {
	const n, m = 1_600_000, 4
	weights := func(prec uint) Weights {
		e := Exp(1_000_000_000, prec)
		return Weights{First: Int(1).Quo(e), Either: e.Quo(e.Add(Int(1))), Same: Int(1).Quo(e)}
	}
	exactly := weights(128)
	for _, two := range []uint32{2, 1} {
		counts := count(NewMixture(m, weights), n, 1, two)
		stattest.Cells(counts, shares(exactly, m, 1, two, 1)).Holds(t, "1 or %d", two)
		stattest.Cells(counts, shares(exactly, m, 1, two, 0.97)).Fails(t, "1 or %d, spoiled by 3 %%", two)
	}
}

func count(mix *Mixture, n int, one, two uint32) map[uint32]int {
	bits := NewBits()
	counts := map[uint32]int{}
	for range n {
		counts[mix.Draw(bits, one, two)]++
	}
	return counts
}

// shares returns the probability of each value, with the chance of the first value times spoil.
func shares(w Weights, m, one, two uint32, spoil float64) map[uint32]float64 {
	isFirst, isEither := w.First.Float64()*spoil, w.Either.Float64()
	if one == two {
		isFirst = w.Same.Float64() * spoil
		isEither = isFirst
	}
	p := map[uint32]float64{}
	for v := range uint32(m) {
		p[v] = (1 - isEither) / float64(m)
	}
	p[one] += isFirst
	p[two] += isEither - isFirst
	return p
}
