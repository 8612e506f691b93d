package bolt

import (
	"errors"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"unsafe"

	"go.etcd.io/bbolt"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// needsMapping skips a test on systems where no address space is reserved.
func needsMapping(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" || strconv.IntSize < 64 {
		t.Skip("no address space is reserved")
	}
}

// mapped returns how much address space bbolt has for a file.
func mapped(d *database) int64 { return reflect.ValueOf(d.db).Elem().FieldByName("datasz").Int() }

// A large file, also a compacted one, may grow to four times its size before it is mapped again.
// During that, all transactions would wait for a copy.
func TestOpen_LargeFile_ReservesAddressSpace(t *testing.T) {
	needsMapping(t)
	path, s := opened(t)
	got := mapped(s.current)
	check.That(t, got == 4<<30, "for a small file %d bytes are mapped", got)
	check.Must(t, s.Close())
	const size int64 = 5 << 30
	check.Must(t, os.Truncate(path, size)) // a sparse file
	s = mustOpen(t, path)
	got = mapped(s.current)
	check.That(t, got == 4*size, "for a file of %d bytes %d are mapped", size, got)
	err := s.Compact(t.Context(), nil)
	check.That(t, err == nil || errors.Is(err, errors.ErrUnsupported), "%v", err)
	got = mapped(s.current)
	check.That(t, got == 4*size, "after a compaction %d bytes are mapped", got)
}

// If the address space cannot be reserved, the file is opened without it.
func TestOpen_LittleAddressSpace_Works(t *testing.T) {
	needsMapping(t)
	const most = 1 << 46
	for range 10 {
		d := check.Value(open(newFile(t), false, most))(t)
		t.Cleanup(func() { _ = d.close() })
		if mapped(d) == most {
			continue // there is still enough
		}
		check.Must(t, d.update(putK("new")))
		check.Must(t, d.view(func(r kv.Reader) error {
			value, err := r.Get("first", []byte("k"))
			check.That(t, string(value) == "new", "the value is %q, %v", value, err)
			return nil
		}))
		return
	}
	t.Skip("the address space is not limited")
}

// bboltLocks returns two unexported locks of bbolt.
func bboltLocks(t *testing.T, db *bbolt.DB) (meta *sync.Mutex, mapped *sync.RWMutex) {
	t.Helper()
	fields := reflect.ValueOf(db).Elem()
	m, d := fields.FieldByName("metalock"), fields.FieldByName("mmaplock")
	check.Need(t, m.IsValid() && m.Type() == reflect.TypeFor[sync.Mutex]() && d.IsValid() &&
		d.Type() == reflect.TypeFor[sync.RWMutex](), "this bbolt has other locks")
	return (*sync.Mutex)(unsafe.Pointer(m.UnsafeAddr())), (*sync.RWMutex)(unsafe.Pointer(d.UnsafeAddr()))
}
