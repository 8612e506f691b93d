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

// needsMapping skips a test where no address space is reserved.
func needsMapping(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" || strconv.IntSize < 64 {
		t.Skip("no address space is reserved")
	}
}

// mapped returns how much address space bbolt has for a file.
func mapped(d *database) int64 { return reflect.ValueOf(d.db).Elem().FieldByName("datasz").Int() }

// A large file may grow much before it must be mapped anew, for which everybody would wait behind a
// copy that is being made; also once it is compacted.
func TestALargeFileHasRoomToGrow(t *testing.T) {
	needsMapping(t)
	path, s := opened(t)
	got := mapped(s.current)
	check.That(t, got == 4<<30, "for a small file %d bytes are mapped", got)
	check.Must(t, s.Close())
	const size int64 = 5 << 30
	check.Must(t, os.Truncate(path, size)) // it takes no room on disk
	s = mustOpen(t, path)
	got = mapped(s.current)
	check.That(t, got == 4*size, "for a file of %d bytes %d are mapped", size, got)
	err := s.Compact(t.Context(), nil)
	check.That(t, err == nil || errors.Is(err, errors.ErrUnsupported), "%v", err)
	got = mapped(s.current)
	check.That(t, got == 4*size, "once it is compacted %d are mapped", got)
}

// Where there is not so much address space a file is opened even so.
func TestAFileIsOpenedWithLittleAddressSpace(t *testing.T) {
	needsMapping(t)
	const most = 1 << 46
	for range 10 {
		d := check.Value(open(newFile(t), false, most))(t)
		t.Cleanup(func() { _ = d.close() })
		if mapped(d) == most {
			continue // there may be some more
		}
		check.Must(t, d.update(putK("new")))
		check.Must(t, d.view(func(r kv.Reader) error {
			value, err := r.Get("first", []byte("k"))
			check.That(t, string(value) == "new", "the value is %q, %v", value, err)
			return nil
		}))
		return
	}
	t.Skip("there is address space without end")
}

// bboltLocks returns two locks that bbolt does not show.
func bboltLocks(t *testing.T, db *bbolt.DB) (meta *sync.Mutex, mapped *sync.RWMutex) {
	t.Helper()
	fields := reflect.ValueOf(db).Elem()
	m, d := fields.FieldByName("metalock"), fields.FieldByName("mmaplock")
	check.Need(t, m.IsValid() && m.Type() == reflect.TypeFor[sync.Mutex]() && d.IsValid() &&
		d.Type() == reflect.TypeFor[sync.RWMutex](), "this bbolt has other locks")
	return (*sync.Mutex)(unsafe.Pointer(m.UnsafeAddr())), (*sync.RWMutex)(unsafe.Pointer(d.UnsafeAddr()))
}
