package rrchain

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

func TestBits_EveryWayToReadThem_Agrees(t *testing.T) {
	for _, c := range []struct {
		text   string
		packed []byte
	}{
		{"0", []byte{0}},
		{"1", []byte{1}},
		{"101", []byte{0b101}},
		{"00000001", []byte{0x80}},
		{"000000001", []byte{0, 1}},
		{"10010001101", []byte{0b10001001, 0b101}},
		{"1000000000000001", []byte{1, 0x80}},
		{"1" + strings.Repeat("0", maxValues-2) + "1", append(append([]byte{1}, make([]byte, maxValues/8-2)...), 0x80)},
	} {
		b := must(NewBits(len(c.text), c.packed))
		check.That(t, b.Len() == len(c.text) && b.String() == c.text && bytes.Equal(b.Pack(), c.packed),
			"NewBits(%d, %x) is %d bits, %s, packed %x", len(c.text), c.packed, b.Len(), b, b.Pack())
		checkRow(t, b)
	}
}

func TestBits_ZeroValue_HasNoBits(t *testing.T) {
	var none Bits
	check.That(t, none.Len() == 0 && none.String() == "" && len(none.Pack()) == 0 && none.Bit(0) == 0 &&
		none.Bit(-1) == 0, "the zero value has %d bits, text %q, packed %x", none.Len(), none, none.Pack())
	for i := range none.Ones() {
		t.Errorf("bit %d of no bits is set", i)
	}
}

// == and maps compare only the bits and their number.
func TestBits_Compared_EqualIfSameBitsAndLength(t *testing.T) {
	same := map[Bits]int{row(9, 1, 8): 1, parsed(t, "010000001"): 1}
	check.That(t, len(same) == 1, "one row is %d", len(same))
	different := []Bits{{}, row(1), row(2), row(8), row(9), row(9, 1), row(10, 1), row(9, 2)}
	for i, a := range different {
		for j, b := range different {
			check.That(t, (a == b) == (i == j), "%q == %q is %v", a, b, a == b)
		}
	}
}

func TestBits_CallersBytesChanged_StayTheSame(t *testing.T) {
	packed := []byte{0b101}
	b := must(NewBits(3, packed))
	packed[0] = 0
	b.Pack()[0] = 0
	check.That(t, b.String() == "101", "the row became %s", b)
}

func TestOnes_LoopLeft_Stops(t *testing.T) {
	b := row(20, 0, 5, 7, 8, 19)
	all := slices.Collect(b.Ones())
	for stop := range all {
		var seen []int
		for i := range b.Ones() {
			if seen = append(seen, i); len(seen) == stop+1 {
				break
			}
		}
		check.That(t, slices.Equal(seen, all[:stop+1]), "stopped after %v, want %v", seen, all[:stop+1])
	}
}

func TestBits_InvalidRows_AreRefused(t *testing.T) {
	for _, c := range []struct {
		n      int
		packed []byte
		names  string
	}{
		{0, nil, "0 bytes for a row of 0 bits"},
		{-8, nil, "a row of -8 bits"},
		{1, nil, "0 bytes for a row of 1 bits"},
		{9, []byte{0}, "1 bytes for a row of 9 bits"},
		{8, []byte{0, 0}, "2 bytes for a row of 8 bits"},
		{maxValues + 1, make([]byte, maxValues/8+1), "1048577 bits"},
		{math.MaxInt, nil, "0 bytes"},
		{1, []byte{2}, "after the last of 1 bits"},
		{7, []byte{0x80}, "after the last of 7"},
		{12, []byte{0xff, 0x1f}, "after the last of 12"},
	} {
		got, err := NewBits(c.n, c.packed)
		check.That(t, got == (Bits{}) && errors.Is(err, privacy.ErrInvalid) && strings.Contains(err.Error(), c.names),
			"NewBits(%d, %x): %q, %v; want an error that names %q", c.n, c.packed, got, err, c.names)
	}
	for text, names := range map[string]string{
		"": "a row of 0 bits", "1 ": "0 and 1 only", "012": "0 and 1 only", "0１": "0 and 1 only",
		strings.Repeat("0", maxValues+1): "a row of 1048577 bits",
	} {
		b := parsed(t, "10")
		err := b.UnmarshalText([]byte(text))
		check.That(t, b.String() == "10" && errors.Is(err, privacy.ErrInvalid) && strings.Contains(err.Error(), names),
			"%.9q: %v, %v; want an error that names %q", text, b, err, names)
	}
}

// FuzzNewBits checks that bytes are accepted only in the form that Pack returns.
func FuzzNewBits(f *testing.F) {
	f.Add(1, []byte{1})
	f.Add(7, []byte{0x80})
	f.Add(8, []byte{0xff})
	f.Add(12, []byte{0xff, 0x0f})
	f.Add(-1, []byte{})
	f.Add(math.MaxInt, []byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, n int, packed []byte) {
		b, err := NewBits(n, packed)
		if err != nil {
			check.That(t, b == (Bits{}) && errors.Is(err, privacy.ErrInvalid), "%q, %v", b, err)
			return
		}
		check.That(t, b.Len() == n && bytes.Equal(b.Pack(), packed),
			"%d bits packed as %x became %d bits packed as %x", n, packed, b.Len(), b.Pack())
		checkRow(t, b)
	})
}

// FuzzBitsText checks that an accepted text is returned by String unchanged.
func FuzzBitsText(f *testing.F) {
	for _, text := range []string{"", "0", "1", "10110", "000000001", "01 ", "0x1", "\x00", "１", "-1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var b Bits
		err := b.UnmarshalText([]byte(text))
		valid := text != "" && len(text) <= maxValues && strings.Trim(text, "01") == ""
		check.Need(t, valid == (err == nil), "%q: %v", text, err)
		if err != nil {
			check.That(t, b == (Bits{}) && errors.Is(err, privacy.ErrInvalid), "%q, %v", b, err)
			return
		}
		check.That(t, b.String() == text, "%q became %q", text, b)
		checkRow(t, b)
	})
}

// checkRow checks that all methods that read a row agree.
func checkRow(t *testing.T, b Bits) {
	t.Helper()
	var ones []int
	for i, digit := range []byte(must(b.MarshalText())) {
		check.That(t, b.Bit(i) == int(digit-'0'), "bit %d of %.99s is %d", i, b, b.Bit(i))
		if b.Bit(i) == 1 {
			ones = append(ones, i)
		}
	}
	check.That(t, slices.Equal(slices.Collect(b.Ones()), ones), "%.99s: ones %v", b, slices.Collect(b.Ones()))
	check.That(t, row(b.Len(), ones...) == b && must(NewBits(b.Len(), b.Pack())) == b && parsed(t, b.String()) == b,
		"%.99s: from its ones, unpacked or parsed it is another", b)
}
