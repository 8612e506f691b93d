package memtable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// FuzzPortion checks that any stored portion with a valid checksum is either decoded or returned as
// ErrCorrupt.
func FuzzPortion(f *testing.F) {
	f.Add(beginPortion(nil, []byte("mark"), "bucket"))
	f.Add(appendText(appendText(beginPortion(nil, []byte("mark"), "bucket"), "key"), "value"))
	f.Add(appendText(appendText(beginPortion(nil, []byte("mark"), Staging), "key"), ""))
	f.Add(beginPortion(nil, nil, ""))
	f.Add([]byte{lastPortion, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, b []byte) {
		number := portionKey(7)
		stored := binary.BigEndian.AppendUint32(b[:len(b):len(b)], sumOf(number, b))
		p, err := decodePortion(number, stored)
		again := beginPortion(nil, p.mark, p.bucket)
		if err == nil {
			err = p.each(func(key, value []byte) error {
				again = appendText(appendText(again, key), value)
				return nil
			})
		}
		check.That(t, err == nil || errors.Is(err, kv.ErrCorrupt), "%v", err)
		if err != nil {
			return
		}
		check.That(t, p.bucket != Staging && p.bucket != "", "a portion of bucket %q", p.bucket)
		// A length that was encoded in more bytes than necessary is encoded shorter.
		again = endPortion(again, number, p.isLast)
		check.That(t, len(again) != len(stored) || bytes.Equal(again, stored), "%x becomes %x", stored, again)
	})
}

// A portion is valid only under its own number, and only as a whole.
func TestDecodePortion_OtherNumberOrTruncated_IsCorrupt(t *testing.T) {
	b := endPortion(appendText(appendText(beginPortion(nil, []byte("mark"), "b"), "key"), "value"), portionKey(1), true)
	check.OK(t, check.Err(decodePortion(portionKey(1), b)))
	for _, number := range [][]byte{portionKey(2), portionKey(1)[1:], nil} {
		check.WantErr(t, check.Err(decodePortion(number, b)), kv.ErrCorrupt, "as number %x", number)
	}
	check.WantErr(t, check.Err(decodePortion(portionKey(1), b[:crc32.Size])), kv.ErrCorrupt, "a checksum alone")
}

// Staged content that stageFrozen never writes is ErrCorrupt: buckets or keys that do not rise, and
// too many buckets.
func TestOver_StagedOutOfOrder_IsCorrupt(t *testing.T) {
	mark := Mark{"meta", []byte("m")}
	over := func(buckets ...[]string) error {
		base := new(kv.Memory)
		check.Must(t, base.Update(func(w kv.Writer) error {
			for i, names := range buckets {
				b := beginPortion(nil, []byte("now"), names[0])
				for _, key := range names[1:] {
					b = appendText(appendText(b, key), "value")
				}
				number := portionKey(uint64(i + 1))
				check.Must(t, w.Put(Staging, number, endPortion(b, number, i == len(buckets)-1)))
			}
			return w.Put(mark.Bucket, mark.Key, []byte("now"))
		}))
		_, err := Over(base, Options{Mark: mark})
		return err
	}
	var many [][]string
	for i := range maxBuckets {
		many = append(many, []string{fmt.Sprintf("%03d", i), "a"})
	}
	for _, sound := range [][][]string{{{"a", "1", "2"}, {"a", "3"}, {"b", "1"}}, many} {
		err := over(sound...)
		check.That(t, err == nil, "%v %v", sound, err)
	}
	for _, strange := range [][][]string{
		{{"b", "1"}, {"a", "1"}}, {{"a", "2", "1"}}, {{"a", "1", "1"}}, {{"a", "2"}, {"a", "1"}}, {{"a", "2"}, {"a", "2"}}, append(many, []string{"x", "a"}),
	} {
		err := over(strange...)
		check.That(t, errors.Is(err, kv.ErrCorrupt), "%v %v", strange, err)
	}
}
