package trial

import (
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/sluicedp/sluice/internal/check"
)

// A file that was used for long has many free pages.

// wornName is what such a file is called where its host shall not compact it: that would make it a young one.
const wornName = "worn.db"

// wear gives a file the free pages of long use: many records that were put, and then deleted.
func wear(t testing.TB, path string) {
	t.Helper()
	s, err := bbolt.Open(path, 0o600, nil)
	check.Must(t, err)
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
	check.Must(t, errors.Join(err, s.Close()))
}
