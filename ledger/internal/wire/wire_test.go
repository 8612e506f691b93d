package wire

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// AppendNumbers appends the same bytes as one AppendUvarint for each number.
func TestAppendNumbers_AgreesWithAppendUvarint(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		numbers := make([]uint64, random.IntN(12))
		begin := make([]byte, random.IntN(4), 4+random.IntN(40))
		want := bytes.Clone(begin)
		for i := range numbers {
			numbers[i] = random.Uint64() >> random.IntN(64)
			want = binary.AppendUvarint(want, numbers[i])
		}
		if got := AppendNumbers(begin, numbers...); !bytes.Equal(got, want) {
			t.Fatalf("%d give %x, want %x", numbers, got, want)
		}
	}
}

// A text of Texts does not change when others are added. A short text costs no allocation.
func TestTexts_LaterTexts_DoNotChangeEarlierOnes(t *testing.T) {
	shared, random := &Texts{}, rand.New(rand.NewPCG(7, 8))
	var got, want []string
	for i := range 2000 {
		text := bytes.Repeat([]byte{byte(i), byte(i >> 8)}, random.IntN(40))
		if i%500 == 7 {
			text = bytes.Repeat(text, 300) // longer than a block
		}
		got, want = append(got, shared.of(text)), append(want, string(text))
		clear(text)
	}
	if !slices.Equal(got, want) {
		t.Error("texts have changed")
	}
	text := []byte("a name")
	if n := testing.AllocsPerRun(1000, func() { shared.of(text) }); n != 0 {
		t.Errorf("%v allocations for a short text", n)
	}
}
