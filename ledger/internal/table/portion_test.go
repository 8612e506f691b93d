package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// FuzzPortion: what is stored aside is read, or refused as damaged, and nothing else happens, though somebody has made the checksum fit.
func FuzzPortion(f *testing.F) {
	f.Add(beginPortion(nil, []byte("mark"), "bucket"))
	f.Add(appendText(appendText(beginPortion(nil, []byte("mark"), "bucket"), "key"), "value"))
	f.Add(appendText(appendText(beginPortion(nil, []byte("mark"), Aside), "key"), ""))
	f.Add(beginPortion(nil, nil, ""))
	f.Add([]byte{isLast, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, b []byte) {
		number := numbered(7)
		stored := binary.BigEndian.AppendUint32(b[:len(b):len(b)], sumOf(number, b))
		p, err := decodePortion(number, stored)
		again := beginPortion(nil, p.mark, p.bucket)
		if err == nil {
			err = p.each(func(key, value []byte) error {
				again = appendText(appendText(again, key), value)
				return nil
			})
		}
		if err != nil && !errors.Is(err, kv.ErrCorrupt) {
			t.Error(err)
		}
		if err != nil {
			return
		}
		if p.bucket == Aside || p.bucket == "" {
			t.Errorf("a portion of bucket %q", p.bucket)
		}
		// Whoever writes numbers in more bytes than need be gets other bytes back.
		if again = endPortion(again, number, p.last); len(again) == len(stored) && !bytes.Equal(again, stored) {
			t.Errorf("%x becomes %x", stored, again)
		}
	})
}

func TestAPortionIsNoOther(t *testing.T) {
	b := endPortion(appendText(appendText(beginPortion(nil, []byte("mark"), "b"), "key"), "value"), numbered(1), true)
	if _, err := decodePortion(numbered(1), b); err != nil {
		t.Error(err)
	}
	for _, number := range [][]byte{numbered(2), numbered(1)[1:], nil} {
		if _, err := decodePortion(number, b); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("as number %x: %v", number, err)
		}
	}
	if _, err := decodePortion(numbered(1), b[:crc32.Size]); !errors.Is(err, kv.ErrCorrupt) {
		t.Error("a checksum alone:", err)
	}
}
