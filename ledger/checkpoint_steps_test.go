package ledger

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/journal"
)

// The steps of a checkpoint, as the file and the journal see them.
const (
	stepFrozen  = "before anything is written"
	stepWriting = "during the writing"
	stepWritten = "before the commit"
	stepStored  = "after the commit"
	stepTrim    = "before the journal is trimmed"
	stepTrimmed = "after the journal is trimmed"
)

func steps() []string {
	return []string{stepFrozen, stepWriting, stepWritten, stepStored, stepTrim, stepTrimmed}
}

// stepped is a store with journals that calls at for each step of a checkpoint. An error of at
// makes the step fail.
type stepped struct {
	kv.Store
	kv.Copier
	besideFile
	at func(step string) error // changed while no checkpoint runs
}

func (s *stepped) step(step string) error {
	if s.at == nil {
		return nil
	}
	return s.at(step)
}

func (s *stepped) Update(fn func(kv.Writer) error) error {
	if err := s.step(stepFrozen); err != nil {
		return err
	}
	err := s.Store.Update(func(w kv.Writer) error {
		if err := fn(&stepping{Writer: w, in: s}); err != nil {
			return err
		}
		return s.step(stepWritten)
	})
	if err != nil {
		return err
	}
	if err := s.step(stepStored); err != nil {
		return fmt.Errorf("%w: %w", kv.ErrUncertain, err)
	}
	return nil
}

// stepping calls at when some records are written, and others are not.
type stepping struct {
	kv.Writer
	in   *stepped
	puts int
}

func (w *stepping) Put(bucket string, key, value []byte) error {
	if w.puts++; w.puts == 3 {
		if err := w.in.step(stepWriting); err != nil {
			return err
		}
	}
	return w.Writer.Put(bucket, key, value)
}

func (s *stepped) Make(w journal.Wanted) (journal.Journal, error) {
	j, err := s.besideFile.Make(w)
	return trimming{j, s}, err
}

func (s *stepped) Remove(j journal.Journal) error { return s.besideFile.Remove(j.(trimming).Journal) }

// trimming is the journal of a stepped store.
type trimming struct {
	journal.Journal
	in *stepped
}

func (j trimming) Trim(ctx context.Context, at journal.Position) error {
	if err := j.in.step(stepTrim); err != nil {
		return err
	}
	return errors.Join(j.Journal.Trim(ctx, at), j.in.step(stepTrimmed))
}

func openStepped(t testing.TB, path string, options Options) (*Ledger, *stepped) {
	t.Helper()
	file := check.Value(bolt.Open(path, false))(t)
	s := &stepped{Store: file, Copier: file, besideFile: besideFile(path)}
	l := check.Value(readStore(t.Context(), s, s, options))(t)
	must(t, l.begin(t.Context(), options))
	t.Cleanup(func() { _ = l.Close() })
	return l, s
}

// wantResponses fails unless all readers get exactly the responses that were returned.
func wantResponses(t *testing.T, l *Ledger, returned map[string]api.Response, when string) {
	t.Helper()
	found := 0
	for one, err := range l.Responses(t.Context(), "vote", eps(t, "1")) {
		if must(t, err); returned[one.Object] != one {
			t.Errorf("%s: it has %+v, returned was %+v", when, one, returned[one.Object])
		}
		found++
	}
	check.That(t, found == len(returned), "%s: it has %d responses, returned were %d", when, found, len(returned))
	for name, one := range returned {
		if o := objectOf(t, l, name); len(o.Chains[0].Levels) != 1 || o.Chains[0].Levels[0].Response != one.Value {
			t.Errorf("%s: a reader gets %+v, returned was %+v", when, o, one)
		}
	}
}

// At each step of a checkpoint readers see all returned responses, and no more. Commits continue,
// and what a crash leaves has all of them.
func TestCheckpoint_AtEachStep_ReadsAndCommitsContinue(t *testing.T) {
	names := crowd(120)
	path := votersFile(t, "9", names...)
	l, s := openStepped(t, path, Options{})
	returned, next := map[string]api.Response{}, 0
	draw := func() {
		name := names[next]
		next++
		returned[name] = release(t, l, releaseOf(t, name, name, "1"))
	}
	for _, step := range steps() {
		for range 3 {
			draw()
		}
		hold := newGate(t)
		s.at = func(now string) error {
			if now == step {
				return hold.pass()
			}
			return nil
		}
		done := async(func() (bool, error) { return true, l.engine.Checkpoint() })
		hold.wait(t)
		wantResponses(t, l, returned, step)
		crashed := crashCopy(t, path)
		before := len(returned)
		for range 2 {
			draw()
		}
		wantResponses(t, l, returned, step+", after a commit")
		hold.open()
		must(t, await(t, done).err)
		wantResponses(t, l, returned, step+", when it is over")
		wantClean(t, l, api.VerifyRequest{})
		again := open(t, crashed, Options{ReadOnly: true})
		n := len(responses(t, again, "vote", eps(t, "1")))
		check.That(t, n == before, "%s: a crash leaves %d responses of %d", step, n, before)
		closed(t, again)
	}
	s.at = nil
	closed(t, l)
	wantResponses(t, open(t, path, Options{}), returned, "in the end")
}

// The disk is full, or fails, at some step of a checkpoint, and the logger says so. If nothing was
// stored, the ledger continues, and a later checkpoint succeeds. Otherwise it stops, and all calls
// return the cause. Nothing is lost.
func TestCheckpoint_DiskFailsAtEachStep_LosesNothing(t *testing.T) {
	for _, step := range steps() {
		for _, fault := range []error{syscall.ENOSPC, syscall.EIO} {
			t.Run(fmt.Sprint(step, ", ", fault), func(t *testing.T) { failAtStep(t, step, fault) })
		}
	}
}

func failAtStep(t *testing.T, step string, fault error) {
	names := crowd(20)
	path := votersFile(t, "9", names...)
	var log journalLog
	l, s := openStepped(t, path, Options{Logger: zerolog.New(&log)})
	returned := map[string]api.Response{}
	for _, name := range names[:5] {
		returned[name] = release(t, l, releaseOf(t, name, name, "1"))
	}
	s.at = func(now string) error {
		if now == step {
			return fault
		}
		return nil
	}
	goesOn := step == stepFrozen || step == stepWriting || step == stepWritten
	if err := l.engine.Checkpoint(); goesOn || step == stepStored { // what is in the file is there, trimmed or not
		wantErr(t, err, fault)
	}
	log.await(t, fault.Error())
	if goesOn {
		wantResponses(t, l, returned, "afterwards")
		returned[names[5]] = release(t, l, releaseOf(t, names[5], names[5], "1"))
		wantErr(t, l.engine.Checkpoint(), fault)
		wantErr(t, l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: names[19]}), fault)
		s.at = nil
		forget(t, l, names[19])
		must(t, l.engine.Checkpoint())
		returned[names[6]] = release(t, l, releaseOf(t, names[6], names[6], "1"))
	} else {
		for what, call := range everyCall(t, l) {
			err := call()
			check.That(t, errors.Is(err, api.ErrStopped) && errors.Is(err, fault), "%s returns %v", what, err)
		}
		s.at = nil
	}
	must(t, l.Close())
	again := open(t, path, Options{})
	wantResponses(t, again, returned, "opened again")
	wantClean(t, again, api.VerifyRequest{})
	closed(t, again)
	files := tree(t, path)
	check.That(t, len(files) == 1, "the files are %v", files)
}

// A read during a checkpoint that ends uncertainly returns that the ledger has stopped, and why:
// what was read may not be durable.
func TestRead_DuringUncertainCheckpoint_IsErrStopped(t *testing.T) {
	for what, meet := range map[string]func(l *Ledger, path string) error{
		"a snapshot": func(l *Ledger, _ string) error {
			return l.engine.View(t.Context(), func(*state.State) error { _ = l.engine.Checkpoint(); return nil })
		},
		"the log": func(l *Ledger, _ string) error {
			return l.engine.Inspect(t.Context(), func(kv.Fault) {}, func(kv.Reader) error { _ = l.engine.Checkpoint(); return nil })
		},
		"a copy":       func(l *Ledger, path string) error { return check.Err(l.Backup(t.Context(), path+".backup", nil)) },
		"a compaction": func(l *Ledger, _ string) error { return l.Compact(t.Context(), nil) },
		"a Forget": func(l *Ledger, _ string) error {
			return l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: crowd(1)[0]})
		},
	} {
		path := votersFile(t, "9", crowd(20)...)
		l, s := openStepped(t, path, Options{})
		release(t, l, releaseOf(t, "1", crowd(1)[0], "1"))
		s.at = func(now string) error {
			if now == stepStored {
				return syscall.EIO
			}
			return nil
		}
		err := meet(l, path)
		check.That(t, errors.Is(err, api.ErrStopped) && errors.Is(err, syscall.EIO), "%s: %v", what, err)
		must(t, l.Close())
	}
}
