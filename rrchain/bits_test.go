package rrchain

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/privacy"
)

// TestRowsOfBits looks at a row in every way there is.
func TestRowsOfBits(t *testing.T) {
	for _, c := range []struct {
		n      int
		ones   []int
		text   string
		packed []byte
	}{
		{1, nil, "0", []byte{0}},
		{1, []int{0}, "1", []byte{1}},
		{3, []int{2, 0}, "101", []byte{0b101}},
		{8, []int{7, 7, 7}, "00000001", []byte{0x80}},
		{9, []int{8}, "000000001", []byte{0, 1}},
		{11, []int{0, 3, 7, 8, 10}, "10010001101", []byte{0b10001001, 0b101}},
		{16, []int{15, 0}, "1000000000000001", []byte{1, 0x80}},
	} {
		b := row(t, c.n, c.ones...)
		if b.Len() != c.n || b.String() != c.text || !bytes.Equal(b.Pack(), c.packed) {
			t.Errorf("NewBits(%d, %v) is %d bits, %s, packed %x", c.n, c.ones, b.Len(), b, b.Pack())
		}
		set := slices.Compact(slices.Sorted(slices.Values(c.ones)))
		if b.Count() != len(set) || !slices.Equal(slices.Collect(b.Ones()), set) {
			t.Errorf("%s: %d ones, %v", b, b.Count(), slices.Collect(b.Ones()))
		}
		for i := range c.n {
			if want := int(c.text[i] - '0'); b.Bit(i) != want {
				t.Errorf("bit %d of %s is %d", i, b, b.Bit(i))
			}
		}
		if got, err := UnpackBits(c.n, c.packed); err != nil || got != b {
			t.Errorf("UnpackBits(%d, %x) = %v, %v", c.n, c.packed, got, err)
		}
		if got := parsed(t, c.text); got != b {
			t.Errorf("ParseBits(%s) = %v", c.text, got)
		}
	}
}

// TestNoBits is the zero value.
func TestNoBits(t *testing.T) {
	var none Bits
	if none.Len() != 0 || none.Count() != 0 || none.String() != "" || len(none.Pack()) != 0 {
		t.Errorf("the zero value has %d bits, %d ones, text %q, packed %x", none.Len(), none.Count(), none, none.Pack())
	}
	for i := range none.Ones() {
		t.Errorf("bit %d of no bits is set", i)
	}
}

// TestRowsAreCompared checks that == and maps see the bits and their number, and nothing else.
func TestRowsAreCompared(t *testing.T) {
	same := map[Bits]int{}
	for _, b := range []Bits{row(t, 9, 1, 8), row(t, 9, 8, 1, 1), parsed(t, "010000001")} {
		same[b]++
	}
	if len(same) != 1 {
		t.Errorf("one row is %d", len(same))
	}
	different := []Bits{{}, row(t, 1), row(t, 2), row(t, 8), row(t, 9), row(t, 9, 1), row(t, 10, 1), row(t, 9, 2)}
	for i, a := range different {
		for j, b := range different {
			if (a == b) != (i == j) {
				t.Errorf("%q == %q is %v", a, b, a == b)
			}
		}
	}
}

// TestRowsNeverChange writes to what went in and to what came out.
func TestRowsNeverChange(t *testing.T) {
	packed := []byte{0b101}
	b, err := UnpackBits(3, packed)
	if err != nil {
		t.Fatal(err)
	}
	packed[0] = 0
	b.Pack()[0] = 0
	if b.String() != "101" {
		t.Errorf("the row became %s", b)
	}
}

// TestOnesStopsWhenAsked leaves the loop at each of the ones.
func TestOnesStopsWhenAsked(t *testing.T) {
	b := row(t, 20, 0, 5, 7, 8, 19)
	all := slices.Collect(b.Ones())
	for stop := range all {
		var seen []int
		for i := range b.Ones() {
			if seen = append(seen, i); len(seen) == stop+1 {
				break
			}
		}
		if !slices.Equal(seen, all[:stop+1]) {
			t.Errorf("stopped after %v, want %v", seen, all[:stop+1])
		}
	}
}

func TestTheLongestRow(t *testing.T) {
	b := row(t, MaxValues, 0, MaxValues-1)
	if b.Len() != MaxValues || b.Count() != 2 || len(b.Pack()) != MaxValues/8 || parsed(t, b.String()) != b {
		t.Errorf("a row of %d bits has %d ones in %d bytes", b.Len(), b.Count(), len(b.Pack()))
	}
}

func TestBitsRefuse(t *testing.T) {
	long := strings.Repeat("0", MaxValues+1)
	for _, c := range []struct {
		name  string
		make  func() (Bits, error)
		names string
	}{
		{"no bits", func() (Bits, error) { return NewBits(0) }, "a row of 0 bits"},
		{"fewer than none", func() (Bits, error) { return NewBits(-1) }, "a row of -1 bits"},
		{"far fewer", func() (Bits, error) { return NewBits(math.MinInt) }, "bits"},
		{"too many", func() (Bits, error) { return NewBits(MaxValues + 1) }, "a row of 1048577 bits"},
		{"far too many", func() (Bits, error) { return NewBits(math.MaxInt) }, "bits; 1 to 1048576"},
		{"a bit behind the last", func() (Bits, error) { return NewBits(9, 1, 9) }, "bit 9 of 9"},
		{"a bit before the first", func() (Bits, error) { return NewBits(9, -1) }, "bit -1 of 9"},
		{"unpack none", func() (Bits, error) { return UnpackBits(0, nil) }, "0 bytes for a row of 0 bits"},
		{"unpack fewer than none", func() (Bits, error) { return UnpackBits(-8, nil) }, "a row of -8 bits"},
		{"unpack no bytes", func() (Bits, error) { return UnpackBits(1, nil) }, "0 bytes for a row of 1 bits"},
		{"unpack a byte too few", func() (Bits, error) { return UnpackBits(9, []byte{0}) }, "1 bytes for a row of 9 bits"},
		{"unpack a byte too many", func() (Bits, error) { return UnpackBits(8, []byte{0, 0}) }, "2 bytes for a row of 8 bits"},
		{"unpack too many", func() (Bits, error) { return UnpackBits(MaxValues+1, make([]byte, MaxValues/8+1)) }, "1048577 bits"},
		{"unpack far too many", func() (Bits, error) { return UnpackBits(math.MaxInt, nil) }, "0 bytes"},
		{"unpack one beyond the last of 1", func() (Bits, error) { return UnpackBits(1, []byte{2}) }, "beyond the last of 1"},
		{"unpack one beyond the last of 7", func() (Bits, error) { return UnpackBits(7, []byte{0x80}) }, "beyond the last of 7"},
		{"unpack one beyond the last of 12", func() (Bits, error) { return UnpackBits(12, []byte{0xff, 0x1f}) }, "beyond the last of 12"},
		{"parse nothing", func() (Bits, error) { return ParseBits("") }, "a row of 0 bits"},
		{"parse a space", func() (Bits, error) { return ParseBits("1 ") }, "0 and 1 only"},
		{"parse a 2", func() (Bits, error) { return ParseBits("012") }, "0 and 1 only"},
		{"parse another 1", func() (Bits, error) { return ParseBits("0１") }, "0 and 1 only"},
		{"parse too many", func() (Bits, error) { return ParseBits(long) }, "a row of 1048577 bits"},
	} {
		got, err := c.make()
		if got != (Bits{}) || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: %q, %v; want an error that names %q", c.name, got, err, c.names)
		}
	}
}

// FuzzUnpackBits takes any bytes for any number of bits: what is not refused is the one way to pack them.
func FuzzUnpackBits(f *testing.F) {
	f.Add(1, []byte{1})
	f.Add(7, []byte{0x80})
	f.Add(8, []byte{0xff})
	f.Add(12, []byte{0xff, 0x0f})
	f.Add(-1, []byte{})
	f.Add(math.MaxInt, []byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, n int, packed []byte) {
		b, err := UnpackBits(n, packed)
		if err != nil {
			if b != (Bits{}) || !errors.Is(err, ErrInvalid) {
				t.Errorf("%q, %v", b, err)
			}
			return
		}
		if b.Len() != n || !bytes.Equal(b.Pack(), packed) {
			t.Errorf("%d bits packed as %x became %d bits packed as %x", n, packed, b.Len(), b.Pack())
		}
		checkRow(t, b)
	})
}

// FuzzParseBits takes any text: what is not refused comes out again.
func FuzzParseBits(f *testing.F) {
	for _, text := range []string{"", "0", "1", "10110", "000000001", "01 ", "0x1", "\x00", "１", "-1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := ParseBits(text)
		if valid := text != "" && len(text) <= MaxValues && strings.Trim(text, "01") == ""; valid != (err == nil) {
			t.Fatalf("%q: %v", text, err)
		}
		if err != nil {
			if b != (Bits{}) || !errors.Is(err, ErrInvalid) {
				t.Errorf("%q, %v", b, err)
			}
			return
		}
		if b.String() != text {
			t.Errorf("%q became %q", text, b)
		}
		checkRow(t, b)
	})
}

// checkRow compares the ways to look at a row with each other.
func checkRow(t *testing.T, b Bits) {
	t.Helper()
	var ones []int
	for i := range b.Len() {
		if b.Bit(i) == 1 {
			ones = append(ones, i)
		}
	}
	if b.Count() != len(ones) || !slices.Equal(slices.Collect(b.Ones()), ones) {
		t.Errorf("%s: %d ones, %v", b, b.Count(), slices.Collect(b.Ones()))
	}
	if again, err := NewBits(b.Len(), ones...); err != nil || again != b {
		t.Errorf("%s: from its ones it is %q, %v", b, again, err)
	}
	if again, err := UnpackBits(b.Len(), b.Pack()); err != nil || again != b {
		t.Errorf("%s: unpacked it is %q, %v", b, again, err)
	}
	if again, err := ParseBits(b.String()); err != nil || again != b {
		t.Errorf("%s: parsed it is %q, %v", b, again, err)
	}
}

// rowChain is what chains of bits and chains in unary encoding have in common.
type rowChain interface {
	Len() int
	Levels() []BitLevel
	Current() BitLevel
	At(privacy.Epsilon) (BitLevel, bool)
	Degrade(*Sampler, privacy.Epsilon) (BitLevel, error)
	Insert(*Sampler, privacy.Epsilon) (BitLevel, error)
}

// rowChains makes a chain of each kind.
func rowChains(t testing.TB, n int, recorded ...BitLevel) map[string]rowChain {
	t.Helper()
	return map[string]rowChain{"bits": newBits(t, n, recorded...), "unary": newUnary(t, n, recorded...)}
}

func TestEmptyRowChain(t *testing.T) {
	for name, chain := range rowChains(t, 7) {
		if chain.Len() != 7 || len(chain.Levels()) != 0 || chain.Current() != (BitLevel{}) {
			t.Errorf("%s: an empty chain has %d bits, levels %v, current %v", name, chain.Len(), chain.Levels(), chain.Current())
		}
		if level, ok := chain.At(privacy.Epsilon{}); ok {
			t.Errorf("%s: an empty chain has %v at ε=0", name, level)
		}
	}
}

func TestRowChainAt(t *testing.T) {
	recorded := []BitLevel{{eps(t, "0.5"), row(t, 9, 3)}, {eps(t, "1"), row(t, 9)}, {eps(t, "2.5"), row(t, 9, 1, 8)}}
	for name, chain := range rowChains(t, 9, recorded...) {
		for _, want := range recorded {
			if got, ok := chain.At(want.Epsilon); !ok || got != want {
				t.Errorf("%s: at ε=%v: %v, %v", name, want.Epsilon, got, ok)
			}
		}
		for _, missing := range []string{"0", "0.499999999", "0.500000001", "2", "1000"} {
			if got, ok := chain.At(eps(t, missing)); ok || got != (BitLevel{}) {
				t.Errorf("%s: at ε=%s: %v, %v", name, missing, got, ok)
			}
		}
		if got := chain.Current(); got != recorded[2] {
			t.Errorf("%s: current %v, want %v", name, got, recorded[2])
		}
	}
}

// TestRowChainKeepsItsOwnLevels checks that neither what went in nor what came out leads to the chain's
// memory.
func TestRowChainKeepsItsOwnLevels(t *testing.T) {
	recorded := []BitLevel{{eps(t, "0.5"), row(t, 3, 1)}, {eps(t, "1"), row(t, 3)}}
	want := slices.Clone(recorded)
	chains := rowChains(t, 3, recorded...)
	recorded[0].Response = row(t, 3, 2)
	for name, chain := range chains {
		chain.Levels()[1].Response = row(t, 3, 0)
		if !slices.Equal(chain.Levels(), want) {
			t.Errorf("%s: levels are %v", name, chain.Levels())
		}
	}
}

func TestNewRowChainRefuses(t *testing.T) {
	half, one, two := eps(t, "0.5"), eps(t, "1"), row(t, 2)
	for _, c := range []struct {
		n           int
		recorded    []BitLevel
		bits, unary string // what the error names
	}{
		{0, nil, "a row of 0 bits", "0 values"},
		{-1, nil, "a row of -1 bits", "-1 values"},
		{MaxValues + 1, nil, "1048577 bits", "1048577 values"},
		{2, []BitLevel{{}}, "level 0 at ε=0", "level 0 at ε=0"},
		{2, []BitLevel{{half, two}, {half, two}}, "level 1 at ε=0.5", "level 1 at ε=0.5"},
		{2, []BitLevel{{one, two}, {half, two}}, "level 1 at ε=0.5 does not lie above ε=1", "level 1 at ε=0.5"},
		{2, []BitLevel{{half, two}, {one, row(t, 3)}}, "level 1 has 3 bits instead of 2", "level 1 has 3 bits instead of 2"},
		{2, []BitLevel{{half, Bits{}}}, "level 0 has 0 bits instead of 2", "level 0 has 0 bits instead of 2"},
	} {
		chain, err := NewBitChain(c.n, c.recorded...)
		if chain != nil || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.bits) {
			t.Errorf("NewBitChain(%d, %v): %v, want an error that names %q", c.n, c.recorded, err, c.bits)
		}
		unary, err := NewUnaryChain(c.n, c.recorded...)
		if unary != nil || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.unary) {
			t.Errorf("NewUnaryChain(%d, %v): %v, want an error that names %q", c.n, c.recorded, err, c.unary)
		}
	}
	if chain, err := NewUnaryChain(1); chain != nil || !errors.Is(err, ErrInvalid) {
		t.Errorf("a question with 1 value: %v, %v", chain, err)
	}
	for _, n := range []int{1, MaxValues} {
		newBits(t, n, BitLevel{fromNano(t, 1), row(t, n)}, BitLevel{privacy.MaxEpsilon(), row(t, n, n-1)})
	}
	for _, m := range []int{2, MaxValues} {
		newUnary(t, m, BitLevel{fromNano(t, 1), row(t, m)}, BitLevel{privacy.MaxEpsilon(), row(t, m, m-1)})
	}
}

// rowCall is a call to one of the two kinds of chain.
type rowCall func(rowChain, *Sampler, privacy.Epsilon) (BitLevel, error)

// raiseUnary raises for the number of the true value, raiseBits for the row that has this bit set.
func raiseUnary(truth int) rowCall {
	return func(c rowChain, s *Sampler, at privacy.Epsilon) (BitLevel, error) {
		return c.(*UnaryChain).Raise(s, at, truth)
	}
}

func raiseBits(truth Bits) rowCall {
	return func(c rowChain, s *Sampler, at privacy.Epsilon) (BitLevel, error) {
		return c.(*BitChain).Raise(s, at, truth)
	}
}

// TestRowChainRefuses goes through everything that the chains refuse. The chain stays as it was, no random
// bit is used, and the error does not tell the truth, also where the truth is what is wrong.
func TestRowChainRefuses(t *testing.T) {
	const truth = 7777
	levels := func(n int) []BitLevel {
		return []BitLevel{{eps(t, "1"), row(t, n, 1)}, {eps(t, "2"), row(t, n)}, {eps(t, "3"), row(t, n, 0, n-1)}}
	}
	for _, c := range []struct {
		name   string
		kind   string // or both
		n      int
		filled bool
		call   rowCall
		at     []string
	}{
		{"raise an empty chain to nothing", "unary", 10_000, false, raiseUnary(truth), []string{"0"}},
		{"raise downwards", "unary", 10_000, true, raiseUnary(truth), []string{"0", "0.5", "1", "2.5", "3", "2.999999999"}},
		{"raise for a truth above all values", "unary", 7777, true, raiseUnary(truth), []string{"3.1", "1000"}},
		{"raise for a truth below all values", "unary", 10, true, raiseUnary(-truth), []string{"3.1"}},
		{"raise an empty chain for no truth", "unary", 10, false, raiseUnary(truth), []string{"1"}},
		{"raise an empty chain to nothing", "bits", 10, false, raiseBits(row(t, 10, 3)), []string{"0"}},
		{"raise downwards", "bits", 10, true, raiseBits(row(t, 10, 3)), []string{"0", "0.5", "1", "2.5", "3", "2.999999999"}},
		{"raise for a longer truth", "bits", 10, true, raiseBits(row(t, 11, 3)), []string{"3.1", "1000"}},
		{"raise for a shorter truth", "bits", 10, false, raiseBits(row(t, 9, 3)), []string{"3.1"}},
		{"raise for no truth", "bits", 10, false, raiseBits(Bits{}), []string{"3.1"}},
		{"degrade an empty chain", "", 10, false, rowChain.Degrade, []string{"0", "1"}},
		{"degrade upwards", "", 10, true, rowChain.Degrade, []string{"1", "1.5", "3", "4"}},
		{"degrade to nothing", "", 10, true, rowChain.Degrade, []string{"0"}},
		{"insert into an empty chain", "", 10, false, rowChain.Insert, []string{"0", "1"}},
		{"insert outside", "", 10, true, rowChain.Insert, []string{"0", "0.5", "0.999999999", "3.000000001", "1000"}},
		{"insert at a level", "", 10, true, rowChain.Insert, []string{"1", "2", "3"}},
	} {
		var recorded []BitLevel
		if c.filled {
			recorded = levels(c.n)
		}
		for kind := range rowChains(t, c.n) {
			if c.kind != "" && c.kind != kind {
				continue
			}
			for _, at := range c.at {
				chain := rowChains(t, c.n, recorded...)[kind]
				level, err := c.call(chain, ReplaySampler(nil), eps(t, at)) // without bits, a draw would panic
				name := fmt.Sprintf("%s: %s at ε=%s", kind, c.name, at)
				if level != (BitLevel{}) || !errors.Is(err, ErrInvalid) {
					t.Errorf("%s: %v, %v", name, level, err)
					continue
				}
				// The number of values, which is public, is 7777 in one case and may be named.
				if text := strings.ReplaceAll(err.Error(), "question's 7777 values", ""); strings.Contains(text, "7777") {
					t.Errorf("%s: the error tells the truth: %v", name, err)
				}
				if !slices.Equal(chain.Levels(), recorded) {
					t.Errorf("%s changed the levels to %v", name, chain.Levels())
				}
			}
		}
	}
}

// TestRowsPassTheRightResponses chooses the words such that every bit takes the response above, the one
// below, or the uniform bit, here 1: bit i of the truth is bit i of this text, and so on.
func TestRowsPassTheRightResponses(t *testing.T) {
	const n = 12
	low, high, truth := parsed(t, "000000111111"), parsed(t, "000111000111"), parsed(t, "001001001001")
	recorded := []BitLevel{{eps(t, "1"), low}, {eps(t, "2"), high}}
	raise := func(c *BitChain, s *Sampler) (BitLevel, error) { return c.Raise(s, eps(t, "3"), truth) }
	insert := func(c *BitChain, s *Sampler) (BitLevel, error) { return c.Insert(s, eps(t, "1.5")) }
	degrade := func(c *BitChain, s *Sampler) (BitLevel, error) { return c.Degrade(s, eps(t, "0.5")) }
	first := func(c *BitChain, s *Sampler) (BitLevel, error) { return c.Raise(s, eps(t, "1"), truth) }
	for _, c := range []struct {
		name         string
		law          law
		draw         func(*BitChain, *Sampler) (BitLevel, error)
		levels       []BitLevel
		above, below Bits
	}{
		{"raise", law{2, 2_000_000_000, 3_000_000_000, truthAbove}, raise, recorded, truth, high},
		{"insert", law{2, 1_000_000_000, 1_500_000_000, 2_000_000_000}, insert, recorded, high, low},
		{"degrade", law{2, 0, 500_000_000, 1_000_000_000}, degrade, recorded, low, low},
		{"first response", law{2, 0, 1_000_000_000, truthAbove}, first, nil, truth, truth},
	} {
		w := c.law.weights(prec)
		first, either, same := w.First.Float64(), w.Either.Float64(), w.Same.Float64()
		for _, u := range between01(first, either, same) {
			want := wantRow(t, c.above, c.below, u, first, either, same)
			level, err := c.draw(newBits(t, n, c.levels...), replay(slices.Repeat([]uint64{wordOf(2, u, 1)}, n)...))
			if err != nil || level.Response != want {
				t.Errorf("%s with U=%v: %v, %v; want %v", c.name, u, level.Response, err, want)
			}
		}
	}
}

// between01 returns a number in each of the gaps that some thresholds leave between 0 and 1.
func between01(thresholds ...float64) (inside []float64) {
	edges := append(thresholds, 0, 1)
	slices.Sort(edges)
	for i, edge := range edges[1:] {
		if edge-edges[i] > 1e-9 {
			inside = append(inside, (edge+edges[i])/2)
		}
	}
	return inside
}

// wantRow is what each bit becomes at U = u with 1 as the uniform bit.
func wantRow(t *testing.T, above, below Bits, u, first, either, same float64) Bits {
	var ones []int
	for i := range above.Len() {
		a, b, bit := above.Bit(i), below.Bit(i), 1
		switch {
		case a == b && u < same, a != b && u < first:
			bit = a
		case a != b && u < either:
			bit = b
		}
		if bit == 1 {
			ones = append(ones, i)
		}
	}
	return row(t, above.Len(), ones...)
}

// TestRowsAtTheEdges goes to the limits of the number of bits and of ε. At ε ≥ 500 a bit is a lie with a
// probability below 10⁻²¹¹.
func TestRowsAtTheEdges(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	for _, n := range []int{1, 2, 7, 8, 9, 64, 20_000} {
		truth, sampler := randomRow(t, random, n), NewSampler()
		chain := newBits(t, n)
		for _, at := range []string{"1000", "0.000000001", "999.999999999", "0.000000002", "500"} {
			level, err := extendRow(&chain.bitChain, sampler, eps(t, at), func() (BitLevel, error) { return chain.Raise(sampler, eps(t, at), truth) })
			if err != nil {
				t.Fatal(err)
			}
			if again, err := UnpackBits(n, level.Response.Pack()); err != nil || again != level.Response {
				t.Errorf("%d bits at ε=%s: packed the response is refused: %v", n, at, err)
			}
		}
		for _, level := range chain.Levels()[2:] {
			if level.Response != truth {
				t.Errorf("%d bits: at ε=%v the response is not the truth", n, level.Epsilon)
			}
		}
	}
}

// FuzzRowChain calls operations in any order, right and wrong ones, on both kinds of chain. A refused call
// changes nothing and an accepted one adds one level.
func FuzzRowChain(f *testing.F) {
	f.Add(uint16(2), []byte{0, 5, 1, 0, 9, 1, 1, 1, 1, 2, 7, 1})
	f.Add(uint16(9), []byte{1, 1, 0, 2, 1, 0, 0, 0, 0, 0, 3, 250, 2, 3, 0})
	f.Add(uint16(500), []byte{0, 255, 255, 1, 1, 0, 2, 254, 0, 2, 128, 0})
	sampler := NewSampler()
	f.Fuzz(func(t *testing.T, size uint16, program []byte) {
		n := 2 + int(size)%600
		unary, filter := newUnary(t, n), newBits(t, n)
		for ; len(program) >= 3; program = program[3:] {
			at, truth := fromNano(t, int64(program[1])*3_900_000_001), int(program[2])-1
			bits := row(t, n-int(program[2]&1), 0) // as many as the chain has, or one less
			for _, c := range []struct {
				chain rowChain
				raise rowCall
			}{{unary, raiseUnary(truth)}, {filter, raiseBits(bits)}} {
				before := c.chain.Levels()
				level, err := []rowCall{c.raise, rowChain.Degrade, rowChain.Insert}[program[0]%3](c.chain, sampler, at)
				checkRowStep(t, c.chain, before, level, err)
			}
		}
		rowChains(t, n, unary.Levels()...)
		rowChains(t, n, filter.Levels()...)
	})
}

// checkRowStep compares the levels before and after a call.
func checkRowStep(t *testing.T, c rowChain, before []BitLevel, level BitLevel, err error) {
	t.Helper()
	after := c.Levels()
	if err == nil {
		i := slices.Index(after, level)
		if i < 0 {
			t.Fatalf("%v was drawn, and the levels are %v", level, after)
		}
		after = slices.Delete(after, i, i+1)
	} else if !errors.Is(err, ErrInvalid) {
		t.Errorf("error %v is not ErrInvalid", err)
	}
	if !slices.Equal(after, before) {
		t.Errorf("levels %v became %v with %v, %v", before, c.Levels(), level, err)
	}
}
