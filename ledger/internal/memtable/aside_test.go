package memtable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// filmed is a store in memory of which there is an image behind each update.
type filmed struct {
	kv.Memory
	images []*kv.Memory
}

func (f *filmed) Update(fn func(kv.Writer) error) error {
	err := f.Memory.Update(fn)
	f.images = append(f.images, f.Copy())
	return err
}

// aside returns the keys and values of what is written aside in a store.
func aside(t testing.TB, s kv.Store) (keys, values [][]byte) {
	t.Helper()
	check.Must(t, s.View(func(r kv.Reader) error {
		return r.Scan(Aside, nil, func(key, value []byte) bool {
			keys, values = append(keys, bytes.Clone(key)), append(values, bytes.Clone(value))
			return true
		})
	}))
	return keys, values
}

// content returns bucket b, and the number of the last update.
func content(t testing.TB, s kv.Store) (found []string, n uint64) {
	t.Helper()
	check.Must(t, s.View(func(r kv.Reader) error {
		at, err := r.Get(mark.Bucket, mark.Key)
		if err != nil {
			return err
		}
		n = number(at)
		found, err = all(r)
		return err
	}))
	return found, n
}

// much returns so many pairs for an update.
func much(n int, value string) (pairs []string) {
	for i := range n {
		pairs = append(pairs, fmt.Sprintf("%03d", i), value)
	}
	return pairs
}

// changes are some that an update makes over much(40, …): new records, new values, and records that
// go.
func changes() (pairs []string) {
	for i := range 80 {
		value := fmt.Sprint("second ", i)
		if i%7 == 3 && i < 40 {
			value = ""
		}
		if i%5 > 0 {
			pairs = append(pairs, fmt.Sprintf("%03d", i), value)
		}
	}
	return pairs
}

// film makes a checkpoint of few records, and films one of many. It returns what there is before
// and behind that.
func film(t *testing.T) (f *filmed, before, behind []string) {
	t.Helper()
	return filmOf(t, 2)
}

// filmOf is film with another number of the update that is filmed.
func filmOf(t *testing.T, number uint64) (f *filmed, before, behind []string) {
	t.Helper()
	f = &filmed{}
	s := tableOver(t, f, Options{Mark: mark, Portion: 50})
	write(t, s, 1, much(40, "first")...)
	checkpoint(t, s)
	before, _ = content(t, s)
	write(t, s, number, changes()...)
	behind, _ = content(t, s)
	f.images = []*kv.Memory{f.Copy()}
	checkpoint(t, s)
	return f, before, behind
}

// Wherever a process dies in a checkpoint, the next one sees what is in the base before it, or
// behind it, whole, and takes it up from there; and so if that dies, too.
func TestACheckpointIsTakenUpWhereItEnded(t *testing.T) {
	f, before, behind := film(t)
	check.Need(t, len(f.images) >= 20, "the checkpoint has only %d transactions", len(f.images))
	seen := map[uint64]int{}
	for i, image := range f.images {
		s := tableOver(t, image.Copy(), Options{Mark: mark})
		found, n := content(t, s)
		seen[n]++
		check.Need(t, (n != 1 || slices.Equal(found, before)) && (n != 2 || slices.Equal(found, behind)),
			"behind transaction %d, as of update %d, there is %q", i, n, found)
		takeUp(t, image, n, found, 2)
	}
	check.That(t, seen[1] >= 3 && seen[2] >= 10 && len(seen) == 2, "images by update: %v", seen)
}

// takeUp goes on with an image: by reading only, with a copy, and by a checkpoint that dies
// anywhere.
func takeUp(t *testing.T, image *kv.Memory, n uint64, found []string, deep int) {
	t.Helper()
	still := tableOver(t, image.Copy(), Options{Mark: mark, ReadOnly: true})
	want(t, still, found...)
	whole := image.Copy()
	check.Must(t, whole.Update(still.WriteTo))
	wantSettled(t, whole, found)

	f := &filmed{}
	check.Must(t, copyAll(f, image))
	s := tableOver(t, f, Options{Mark: mark, Portion: 50})
	write(t, s, n+1, "in front", "1", "000", "")
	more, _ := content(t, s)
	if deep--; deep > 0 {
		f.images = nil
		checkpoint(t, s)
		for _, image := range f.images {
			s := tableOver(t, image.Copy(), Options{Mark: mark})
			now, at := content(t, s)
			check.Need(t, (at != n || slices.Equal(now, found)) && (at != n+1 || slices.Equal(now, more)),
				"as of update %d, there is %q", at, now)
			takeUp(t, image, at, now, deep)
		}
	}
	checkpoint(t, s)
	wantSettled(t, f, more)
}

// wantSettled fails unless a store has just this in bucket b, and nothing aside.
func wantSettled(t *testing.T, s kv.Store, pairs []string) {
	t.Helper()
	want(t, s, pairs...)
	keys, _ := aside(t, s)
	check.That(t, len(keys) == 0, "%d portions are left aside", len(keys))
}

// copyAll copies the buckets of the tests.
func copyAll(to, from kv.Store) error {
	return to.Update(func(w kv.Writer) error {
		return from.View(func(r kv.Reader) (err error) {
			for _, bucket := range []string{mark.Bucket, "b", Aside} {
				err = errors.Join(err, r.Scan(bucket, nil, func(key, value []byte) bool {
					err = errors.Join(err, w.Put(bucket, bytes.Clone(key), bytes.Clone(value)))
					return true
				}))
			}
			return err
		})
	})
}

// No transaction of a large checkpoint changes more than a portion, and none but that which
// completes what is aside changes the mark.
func TestNoTransactionChangesMoreThanAPortion(t *testing.T) {
	b := &base{}
	const records = 3 // of 512 bytes, for as many do short ones count
	s := tableOver(t, b, Options{Mark: mark, Portion: 512 * records})
	write(t, s, 1, "first", "1")
	checkpoint(t, s)
	write(t, s, 2, much(100, "ten bytes!")...)
	marks, most := []uint64{1}, 0
	b.fail(func(update func() error) error {
		err := update()
		_, n := content(t, b)
		marks = append(marks, n)
		changed := slices.DeleteFunc(slices.Clone(b.written), func(one string) bool { return strings.HasPrefix(one, Aside) })
		most = max(most, len(changed))
		return err
	})
	checkpoint(t, s)
	check.That(t, most == records, "a transaction has changed %d records, want %d", most, records)
	check.That(t, slices.IsSorted(marks) && marks[2] == 1 && marks[len(marks)-3] == 2,
		"the marks of the transactions are %v", marks)
	wantSettled(t, b, func() []string { found, _ := content(t, s); return found }())
}

// What a checkpoint has left that died before it was whole is not taken for a part of the next one,
// although that has the same mark.
func TestWhatIsLeftAsideIsNoPartOfAnother(t *testing.T) {
	f, before, _ := film(t)
	for i, image := range f.images {
		if _, n := content(t, image); n != 1 {
			break
		}
		for _, pairs := range [][]string{{"other", "2"}, much(90, "other")} {
			base := &filmed{}
			check.Must(t, copyAll(base, image))
			s := tableOver(t, base, Options{Mark: mark, Portion: 1100}) // two records are a small checkpoint
			want(t, s, before...)
			write(t, s, 2, pairs...)
			found, _ := content(t, s)
			checkpoint(t, s)
			wantSettled(t, base, found)
			for _, image := range base.images[1:] {
				now, n := content(t, tableOver(t, image, Options{Mark: mark}))
				check.That(t, n != 2 || slices.Equal(now, found), "on the way there is %q, want %q", now, found)
			}
			again, _ := content(t, tableOver(t, base, Options{Mark: mark}))
			check.That(t, slices.Equal(again, found), "behind transaction %d there is %q, want %q", i, again, found)
		}
	}
}

// A portion that is damaged, missing, or another's is found before anything is done with it.
func TestDamageToWhatIsAsideIsFound(t *testing.T) {
	f, _, _ := film(t)
	other, _, _ := filmOf(t, 9)
	i := slices.IndexFunc(f.images, func(image *kv.Memory) bool { _, n := content(t, image); return n == 2 })
	image := f.images[i]
	keys, values := aside(t, image)
	check.Need(t, len(keys) >= 5, "there are %d portions", len(keys))
	over := func(what string, change func(kv.Writer) error) {
		t.Helper()
		base := image.Copy()
		check.Must(t, base.Update(change))
		check.WantErr(t, check.Err(Over(base, Options{Mark: mark})), kv.ErrCorrupt, "%s", what)
	}
	for n := range keys {
		over(fmt.Sprint("without portion ", n), func(w kv.Writer) error { return w.Delete(Aside, keys[n]) })
	}
	_, others := aside(t, other.images[i])
	over("one of another checkpoint", func(w kv.Writer) error { return w.Put(Aside, keys[2], others[2]) })
	over("the first of another checkpoint", func(w kv.Writer) error { return w.Put(Aside, keys[0], others[0]) })
	over("two portions swapped", func(w kv.Writer) error {
		return errors.Join(w.Put(Aside, keys[0], values[1]), w.Put(Aside, keys[1], values[0]))
	})
	over("a strange key", func(w kv.Writer) error { return w.Put(Aside, []byte("z"), values[0]) })
	for at := range values[0] {
		for _, bits := range []byte{1, 0x80} {
			damaged := bytes.Clone(values[0])
			damaged[at] ^= bits
			over(fmt.Sprintf("byte %d", at), func(w kv.Writer) error { return w.Put(Aside, keys[0], damaged) })
		}
		over(fmt.Sprintf("cut at %d", at), func(w kv.Writer) error { return w.Put(Aside, keys[0], append(values[0][:at:at], "."...)) })
	}
	// Damage that comes while the table is open is found, too, and nothing is lost: it is read from
	// memory.
	base := image.Copy()
	s := tableOver(t, base, Options{Mark: mark})
	found, _ := content(t, s)
	check.Must(t, base.Update(func(w kv.Writer) error { return w.Put(Aside, keys[0], values[1]) }))
	check.WantErr(t, s.Checkpoint(), kv.ErrCorrupt, "a portion that was damaged meanwhile")
	want(t, s, found...)
}

// A portion that is sound, but of another checkpoint, is not put into its place.
func TestAPortionOfAnotherCheckpointStaysOut(t *testing.T) {
	f, _, _ := film(t)
	_, before := aside(t, f.images[2])
	b := &base{}
	s := tableOver(t, b, Options{Mark: mark, Portion: 50, Step: func(step Step) {
		if keys, _ := aside(t, b); step == SetAside {
			check.OK(t, b.Memory.Update(func(w kv.Writer) error { return w.Put(Aside, keys[0], before[0]) }))
		}
	}})
	write(t, s, 7, much(40, "other")...)
	check.WantErr(t, s.Checkpoint(), kv.ErrCorrupt, "a checkpoint")
	want(t, b)
}

// A checkpoint of much that fails at any transaction loses nothing, and the next one takes it up.
func TestALargeCheckpointThatFailsIsTakenUp(t *testing.T) {
	f, _, behind := film(t)
	for at := range len(f.images) - 1 {
		b := &base{}
		s := tableOver(t, b, Options{Mark: mark, Portion: 50})
		write(t, s, 1, much(40, "first")...)
		checkpoint(t, s)
		write(t, s, 2, changes()...)
		left := at
		b.fail(func(update func() error) error {
			if left--; left < 0 {
				return errDisk
			}
			return update()
		})
		check.WantErr(t, s.Checkpoint(), errDisk, "a checkpoint whose transaction %d fails returns", at)
		want(t, s, behind...)
		write(t, s, 3, "in front", "3")
		found, _ := content(t, s)
		b.fail(nil)
		checkpoint(t, s)
		wantSettled(t, b, found)
	}
}

// A copy is of no moment within a checkpoint: nothing is aside in it. Who makes one holds up
// checkpoints only until its snapshot is taken.
func TestCopiesAreMadeBetweenCheckpoints(t *testing.T) {
	dir := testenv.TempDir(t)
	s := tableOver(t, openBolt(t, filepath.Join(dir, "base")), Options{Mark: mark, Limit: 5000, Portion: 500})
	defer s.Close()
	writeNumber(t, s, 1)
	var writing sync.WaitGroup
	done := make(chan struct{})
	writing.Go(func() {
		for n := uint64(2); !closed(done); n++ {
			writeNumber(t, s, n)
		}
	})
	for n := range testenv.Scale(10, 100) {
		path := filepath.Join(dir, fmt.Sprint("copy ", n))
		check.Must(t, s.CopyTo(t.Context(), path, kv.Copying(n%2), nil, nil))
		copied := openBolt(t, path)
		keys, _ := aside(t, copied)
		check.That(t, len(keys) == 0, "a copy has %d portions aside", len(keys))
		check.OK(t, errors.Join(copied.View(func(r kv.Reader) error { return readNumber(r, 0) }), copied.Close()))
		if n%3 == 0 {
			check.Must(t, s.Compact(t.Context(), nil))
		}
	}
	close(done)
	writing.Wait()

	told := sync.OnceFunc(func() {
		write(t, s, 1<<40, "while it is copied", "1")
		checkpoint(t, s)
	})
	check.Must(t, s.CopyTo(t.Context(), filepath.Join(dir, "last"), kv.Records, func(int64, int64) { told() }, nil))
	copied := openBolt(t, filepath.Join(dir, "last"))
	defer copied.Close()
	want(t, copied)
}

// lateCopier is a base that is held up before it takes the snapshot of a copy.
type lateCopier struct {
	kv.Store
	before func()
}

func (c lateCopier) CopyTo(ctx context.Context, path string, how kv.Copying, progress kv.Progress, inspect func(string) error) error {
	c.before()
	return c.Store.(kv.Copier).CopyTo(ctx, path, how, progress, inspect)
}

func (c lateCopier) Compact(context.Context, kv.Progress) error { return errors.ErrUnsupported }

// longCompacting is a base that has its snapshot, and goes on compacting until it may end. Another
// one waits for that.
type longCompacting struct {
	kv.Store
	alone      *sync.Mutex
	begun, end chan struct{}
}

func (c longCompacting) CopyTo(context.Context, string, kv.Copying, kv.Progress, func(string) error) error {
	return errors.ErrUnsupported
}

func (c longCompacting) Compact(_ context.Context, progress kv.Progress) error {
	c.alone.Lock()
	defer c.alone.Unlock()
	progress(0, 1)
	c.begun <- struct{}{}
	<-c.end
	return nil
}

// Whoever compacts while somebody else does holds up no checkpoint.
func TestWhoWaitsToCompactHoldsUpNoCheckpoint(t *testing.T) {
	base := longCompacting{new(kv.Memory), new(sync.Mutex), make(chan struct{}), make(chan struct{})}
	s := tableOver(t, base, Options{Mark: mark})
	done := make(chan error)
	for range 2 {
		go func() { done <- s.Compact(t.Context(), nil) }()
	}
	<-base.begun
	time.Sleep(5 * time.Millisecond) // the other one may come now
	write(t, s, 1, "a", "1")
	checkpoint(t, s)
	want(t, base.Store, "a=1")
	base.end <- struct{}{}
	<-base.begun
	base.end <- struct{}{}
	check.OK(t, errors.Join(<-done, <-done))
}

// Whoever only reads folds as much as there is over what lies aside, however little memory there
// may be: nobody makes room.
func TestAReaderFoldsOverWhatIsAside(t *testing.T) {
	f, _, behind := film(t)
	image := f.images[len(f.images)-2]
	keys, _ := aside(t, image)
	check.Need(t, len(keys) != 0, "nothing is aside")
	s := tableOver(t, image, Options{Mark: mark, ReadOnly: true, Limit: 1})
	for n := range uint64(5) {
		write(t, s, 3+n, "~", fmt.Sprint(n))
	}
	want(t, s, append(behind, "~=4")...)
}

// A checkpoint that is asked for between that of a copy and its snapshot waits for the snapshot.
func TestNoCheckpointBeginsBeforeACopyHasItsSnapshot(t *testing.T) {
	dir := testenv.TempDir(t)
	amid, goOn := make(chan struct{}, 1), make(chan struct{})
	var s *Table
	var checkpoints sync.WaitGroup
	base := lateCopier{openBolt(t, filepath.Join(dir, "base")), func() {
		write(t, s, 2, much(40, "second")...)
		checkpoints.Go(func() { checkpoint(t, s) })
		stillWaits(t, amid, "a checkpoint goes on before the snapshot is taken")
	}}
	s = tableOver(t, base, Options{Mark: mark, Portion: 50, Step: func(step Step) {
		if _, n := content(t, base); step == Placed && n == 2 {
			amid <- struct{}{}
			<-goOn
		}
	}})
	defer s.Close()
	finish := sync.OnceFunc(func() {
		go func() {
			for range amid { // the steps that are left
			}
		}()
		close(goOn)
	})
	defer finish() // also if the test has failed: Close waits for the checkpoint
	write(t, s, 1, "a", "1")
	path := filepath.Join(dir, "copy")
	check.Must(t, s.CopyTo(t.Context(), path, kv.Pages, nil, nil))
	finish()
	checkpoints.Wait()
	close(amid)
	copied := openBolt(t, path)
	defer copied.Close()
	wantSettled(t, copied, []string{"a=1"})
}

// A table that is closed holds no memory for what it has held.
func TestAClosedTableIsEmpty(t *testing.T) {
	s := tableOver(t, &base{}, Options{Mark: mark})
	write(t, s, 1, much(100, "x")...)
	err := s.Close()
	check.That(t, err == nil && s.Bytes() <= 0, "%d bytes, %v", s.Bytes(), err)
	check.That(t, s.Checkpoint() != nil, "a checkpoint of what was forgotten")
}
