package memtable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// mark is a record that each update changes.
var mark = Mark{Bucket: "meta", Key: []byte("counters")}

func setMark(w kv.Writer, n uint64) error {
	return w.Put(mark.Bucket, mark.Key, binary.BigEndian.AppendUint64(nil, n))
}

// model compares a table with a store in memory that gets the same updates.
type model struct {
	*testing.T
	*rand.Rand
	table   *Table
	like    *kv.Memory
	updates uint64
	held    []*held
	gate    chan struct{} // releases a checkpoint that is paused at a step; nil if none are paused
	running sync.WaitGroup
}

// held is a view that stays open during updates.
type held struct {
	ask  chan func(kv.Reader)
	done chan error
	like *kv.Memory
}

// A table has the same content as a store in memory with the same updates, and each reader sees its
// snapshot, at any step of updates and checkpoints.
func TestTable_RandomOperations_AgreesWithTheModel(t *testing.T) {
	for seed := range uint64(testenv.Tries(24, 60, 600) / (1 + 3*testenv.Race)) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			m := &model{T: t, Rand: rand.New(rand.NewPCG(seed, 1)), like: new(kv.Memory)}
			base := kv.Store(new(kv.Memory))
			if seed%2 == 1 {
				base = openBolt(t, filepath.Join(testenv.TempDir(t), "base"))
			}
			o := Options{Mark: mark, Limit: 1 << uint(m.IntN(16)), Portion: 1 << uint(m.IntN(14))}
			if seed%4 < 2 { // the test begins and pauses checkpoints
				o.Limit, m.gate = 1<<40, make(chan struct{})
				o.Step = func(Step) { <-m.gate }
			}
			m.table = tableOver(t, base, o)
			m.run()
			check.OK(t, m.table.Close())
		})
	}
}

func (m *model) run() {
	defer m.end()
	for range 300 {
		switch m.IntN(10) {
		case 0, 1, 2, 3:
			m.update()
		case 4:
			m.hold()
		case 5, 6:
			m.compareHeld()
		case 7:
			m.release()
		case 8:
			m.checkpoint()
		case 9:
			m.step()
		}
	}
	for len(m.held) > 0 {
		m.release()
	}
	m.compareNow()
}

// end ends all views and checkpoints.
func (m *model) end() {
	if m.gate != nil {
		close(m.gate)
	}
	for _, h := range m.held {
		close(h.ask)
		<-h.done
	}
	m.running.Wait()
}

var errUndone = errors.New("undone")

// update makes the same changes to both, or none, and compares both during the transaction.
func (m *model) update() {
	same, fails, count := m.like.Copy(), m.IntN(6) == 0, m.IntN(1<<uint(m.IntN(8)))
	err := m.table.Update(func(w kv.Writer) error {
		return same.Update(func(like kv.Writer) error {
			m.updates++
			if err := errors.Join(setMark(w, m.updates), setMark(like, m.updates)); err != nil {
				return err
			}
			for range count {
				if err := m.change(w, like); err != nil {
					return err
				}
			}
			if err := m.compare(w, like); err != nil || !fails {
				return err
			}
			return errUndone
		})
	})
	switch {
	case fails && !errors.Is(err, errUndone), !fails && err != nil:
		m.Fatal(err)
	case !fails:
		m.like = same
	}
}

func (m *model) change(w, like kv.Writer) error {
	bucket, key := m.bucket(), m.key()
	if m.IntN(3) == 0 {
		return errors.Join(w.Delete(bucket, key), like.Delete(bucket, key))
	}
	value := fmt.Append(nil, m.Uint64())
	return errors.Join(w.Put(bucket, key, value), like.Put(bucket, key, value))
}

func (m *model) bucket() string { return string('a' + rune(m.IntN(3))) }

// key returns one of a few keys. Some are prefixes of others.
func (m *model) key() []byte {
	key := make([]byte, 1+m.IntN(4))
	for i := range key {
		key[i] = byte(m.IntN(4)) * 85
	}
	return key
}

// compare returns an error if two readers differ in a random scan or in random records.
func (m *model) compare(r, like kv.Reader) error {
	bucket, from, most := m.bucket(), m.key(), 1+m.IntN(60)
	if m.IntN(3) == 0 {
		from = nil
	}
	want, err := pairs(like, bucket, from, most)
	got, failed := pairs(r, bucket, from, most)
	if err := errors.Join(err, failed); err != nil || !slices.Equal(got, want) {
		return fmt.Errorf("a scan of %s from %x finds %q, want %q (%w)", bucket, from, got, want, err)
	}
	for range 3 {
		key := m.key()
		want, err := like.Get(bucket, key)
		got, failed := r.Get(bucket, key)
		if err := errors.Join(err, failed); err != nil || string(got) != string(want) || (got == nil) != (want == nil) {
			return fmt.Errorf("%s %x is %q, want %q (%w)", bucket, key, got, want, err)
		}
	}
	return nil
}

// pairs scans a bucket, and scans and reads it within that scan, too.
func pairs(r kv.Reader, bucket string, from []byte, most int) (found []string, err error) {
	scanned := r.Scan(bucket, from, func(key, value []byte) bool {
		pair := fmt.Sprintf("%x=%s", key, value)
		found = append(found, pair)
		again, failed := r.Get(bucket, key)
		if err = errors.Join(err, failed); string(again) != string(value) {
			err = errors.Join(err, fmt.Errorf("a scan passes %s, and Get %q", pair, again))
		}
		first := ""
		err = errors.Join(err, r.Scan(bucket, key, func(key, value []byte) bool { first = fmt.Sprintf("%x=%s", key, value); return false }))
		if first != pair {
			err = errors.Join(err, fmt.Errorf("a scan passes %s, and one from there %s", pair, first))
		}
		return len(found) < most && err == nil
	})
	return found, errors.Join(err, scanned)
}

// hold begins a view that stays open.
func (m *model) hold() {
	if len(m.held) > 8 {
		return
	}
	h := &held{make(chan func(kv.Reader)), make(chan error), m.like.Copy()}
	begun := make(chan struct{})
	go func() {
		h.done <- m.table.View(func(r kv.Reader) error {
			close(begun)
			for fn := range h.ask {
				fn(r)
			}
			return nil
		})
	}()
	<-begun
	m.held = append(m.held, h)
}

// on runs fn in the goroutine of an open view.
func (h *held) on(fn func(kv.Reader) error) error {
	done := make(chan error, 1)
	h.ask <- func(r kv.Reader) { done <- fn(r) }
	return <-done
}

func (m *model) compareHeld() {
	if len(m.held) == 0 {
		m.compareNow()
		return
	}
	h := m.held[m.IntN(len(m.held))]
	check.Must(m, h.like.View(func(like kv.Reader) error {
		return h.on(func(r kv.Reader) error { return m.compare(r, like) })
	}))
}

func (m *model) compareNow() {
	check.Must(m, m.table.View(func(r kv.Reader) error {
		return m.like.View(func(like kv.Reader) error { return m.compare(r, like) })
	}))
}

func (m *model) release() {
	if len(m.held) == 0 {
		return
	}
	m.compareHeld()
	i := m.IntN(len(m.held))
	h := m.held[i]
	m.held = slices.Delete(m.held, i, i+1)
	close(h.ask)
	check.Must(m, <-h.done)
}

func (m *model) checkpoint() {
	if m.gate == nil {
		check.Must(m, m.table.Checkpoint())
		return
	}
	m.running.Go(func() {
		check.OK(m, m.table.Checkpoint())
	})
}

// step releases a checkpoint that is paused, or is paused within a millisecond.
func (m *model) step() {
	if m.gate == nil {
		return
	}
	select {
	case m.gate <- struct{}{}:
	case <-time.After(time.Millisecond):
	}
}

// A scan passes the snapshot of its transaction, although other callers write and scan during it.
// An update may write to another bucket during a scan.
func TestScan_WritesDuringIt_PassesItsSnapshot(t *testing.T) {
	const records = 200
	s := tableOver(t, new(kv.Memory), Options{Mark: mark})
	n := uint64(0)
	var whole []string
	for i := range records {
		pair := []string{fmt.Sprintf("%03d", i), "old"}
		whole = append(whole, strings.Join(pair, "="))
		n++
		write(t, s, n, pair...)
		if i%50 == 20 {
			checkpoint(t, s)
		}
	}
	scan := func(r kv.Reader, during func(key string)) error {
		var found []string
		err := r.Scan("b", nil, func(key, value []byte) bool {
			found = append(found, string(key)+"="+string(value))
			during(string(key))
			return true
		})
		wantSame(t, found, whole, "a scan passes")
		return err
	}
	check.Must(t, s.View(func(r kv.Reader) error {
		return scan(r, func(key string) {
			n++
			write(t, s, n, key+"+", "new", key, "new", fmt.Sprintf("%03d", records-n%100), "")
			check.OK(t, s.View(func(r kv.Reader) error { _, err := all(r); return err }))
		})
	}))
	err := s.View(func(r kv.Reader) (err error) { whole, err = all(r); return err })
	check.Need(t, err == nil, "%v", err)
	err = s.Update(func(w kv.Writer) error {
		return scan(w, func(key string) {
			check.OK(t, errors.Join(w.Put("a", []byte(key), []byte("x")), w.Put("c", []byte(key), []byte("x"))))
		})
	})
	check.OK(t, err)
}

// During concurrent updates and checkpoints, each reader sees exactly the records of one update.
func TestView_ConcurrentUpdates_SeesWholeUpdates(t *testing.T) {
	for name, base := range map[string]kv.Store{"memory": new(kv.Memory), "bolt": openBolt(t, filepath.Join(testenv.TempDir(t), "base"))} {
		t.Run(name, func(t *testing.T) {
			s := tableOver(t, base, Options{Mark: mark, Limit: 20_000})
			defer s.Close()
			writeNumber(t, s, 1)
			var readers sync.WaitGroup
			done := make(chan struct{})
			for reader := range 3 {
				readers.Go(func() {
					for !closed(done) {
						if err := s.View(func(r kv.Reader) error { return readNumber(r, time.Duration(reader)*time.Millisecond) }); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			for n := range uint64(testenv.Scale(400, 20_000)) {
				writeNumber(t, s, n+2)
			}
			close(done)
			readers.Wait()
		})
	}
}

func closed(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

const perBucket = 20

// writeNumber writes n to many records, and deletes the records that have n-1 in their keys.
func writeNumber(t *testing.T, s kv.Store, n uint64) {
	t.Helper()
	check.Must(t, s.Update(func(w kv.Writer) error {
		err := setMark(w, n)
		for i := range perBucket {
			value := strconv.AppendUint(nil, n, 10)
			err = errors.Join(err, w.Put("all", fmt.Append(nil, i), value), w.Delete("by turns", fmt.Append(nil, i, " ", n-1)),
				w.Put("by turns", fmt.Append(nil, i, " ", n), value))
		}
		return err
	}))
}

// readNumber returns an error unless all records are of the same update, at once and after wait.
func readNumber(r kv.Reader, wait time.Duration) error {
	at, err := r.Get(mark.Bucket, mark.Key)
	if err != nil {
		return err
	}
	want := strconv.FormatUint(number(at), 10)
	for range 2 {
		for _, bucket := range []string{"all", "by turns"} {
			count := 0
			err := r.Scan(bucket, nil, func(key, value []byte) bool {
				if string(value) == want {
					count++
					return true
				}
				count = -1
				return false
			})
			if err != nil || count != perBucket {
				return fmt.Errorf("in %s there are %d records of update %s, want %d: %w", bucket, count, want, perBucket, err)
			}
		}
		if value, err := r.Get("all", []byte("7")); string(value) != want {
			return fmt.Errorf("a record is of update %s, want %s: %w", value, want, err)
		}
		time.Sleep(wait)
	}
	return nil
}
