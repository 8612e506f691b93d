package trial

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"

	"go.etcd.io/bbolt"
)

// A file that was used for long has more free pages than each commit lists. The list is then left out until the file is
// closed, and made anew when it is opened after a crash.

// wornName is what such a file is called where its host shall not compact it: that would make it a young one.
const wornName = "worn.db"

// wear gives a file the free pages of long use: many records that were put, and then deleted.
func wear(t testing.TB, path string) {
	t.Helper()
	s, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The ledger uses this bucket, which is empty so far. Each record takes a page.
	const bucket = "requests"
	each := func(do func(b *bbolt.Bucket, key []byte) error) error {
		return s.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte(bucket))
			if err != nil {
				return err
			}
			for i := range 700 {
				if err := do(b, fmt.Appendf(nil, "%06d", i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = each(func(b *bbolt.Bucket, key []byte) error { return b.Put(key, make([]byte, 3000)) })
	if err == nil {
		err = each(func(b *bbolt.Bucket, key []byte) error { return b.Delete(key) })
	}
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
}

// unlisted tells whether the last transaction of a file has left out its list of free pages. A meta page is a head of 16 bytes,
// in which bbolt has 4 bytes each for a magic number, its version, the size of pages and flags, then 16 for the root, and 8
// each for the page of the list, all ones if there is none, the number of pages, and the transaction.
func unlisted(t testing.TB, path string) bool {
	t.Helper()
	const head, list, transaction = 16, 16 + 32, 16 + 48
	bytes, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first := bytes[:4096]
	second := bytes[binary.NativeEndian.Uint32(first[head+8:]):]
	at := func(page []byte, field int) uint64 { return binary.NativeEndian.Uint64(page[field:]) }
	if at(second, transaction) > at(first, transaction) {
		first = second
	}
	return at(first, list) == ^uint64(0)
}
