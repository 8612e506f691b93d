package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
	"github.com/sluicedp/sluice/ledger/journal"
)

// bareJournal is the least that makes a commit durable: its bytes are appended to a file that is long enough already, and flushed.
type bareJournal struct {
	file  *os.File
	at    int64
	bytes []byte        // what is appended; nobody reads it
	flush time.Duration // how much longer a flush takes than on this disk
}

// bareRoom is how long the file is: as long as a segment of the journal. Behind its end the beginning is written over.
const bareRoom = 64 << 20

func newBareJournal(t testing.TB, flush time.Duration) *bareJournal {
	t.Helper()
	file := check.Value(os.Create(filepath.Join(t.TempDir(), "bare")))(t)
	t.Cleanup(func() { _ = file.Close() })
	j := &bareJournal{file: file, bytes: bytes.Repeat([]byte("bare"), 1<<18), flush: flush}
	for at := int64(0); at < bareRoom; at += int64(len(j.bytes)) {
		must(t, check.Err(file.WriteAt(j.bytes, at)))
	}
	must(t, file.Sync())
	return j
}

// append makes so many bytes durable.
func (j *bareJournal) append(n int) error {
	if j.at+int64(n) > bareRoom {
		j.at = 0
	}
	_, err := j.file.WriteAt(j.bytes[:n], j.at)
	j.at += int64(n)
	err = errors.Join(err, syscall.Fdatasync(int(j.file.Fd())))
	time.Sleep(j.flush)
	return err
}

// bareGroup appends for many callers: whoever comes first appends for all who queued up meanwhile.
type bareGroup struct {
	journal *bareJournal
	mu      sync.Mutex
	queue   []*bareCall
	leading bool
}

type bareCall struct {
	bytes int
	done  chan error
	lead  chan struct{}
}

func (g *bareGroup) append(bytes int) error {
	c := &bareCall{bytes, make(chan error, 1), make(chan struct{}, 1)}
	g.mu.Lock()
	g.queue = append(g.queue, c)
	lead := !g.leading
	g.leading = true
	g.mu.Unlock()
	if !lead {
		select {
		case err := <-c.done:
			return err
		case <-c.lead:
		}
	}
	for range engine.Yields {
		runtime.Gosched()
	}
	g.mu.Lock()
	batch := g.queue
	g.queue = nil
	g.mu.Unlock()
	all := 0
	for _, one := range batch {
		all += one.bytes
	}
	err := g.journal.append(all)
	for _, one := range batch {
		one.done <- err
	}
	g.mu.Lock()
	if g.leading = len(g.queue) > 0; g.leading {
		g.queue[0].lead <- struct{}{}
	}
	g.mu.Unlock()
	return <-c.done
}

// scales are the journal of a ledger beside its file. They weigh what is appended, and count the checkpoints.
type scales struct {
	besideFile
	flush       time.Duration // how much longer a flush takes than on this disk
	last        int           // bytes of what was appended last, as they are in the file; for who has no other caller
	all         atomic.Int64  // bytes
	checkpoints atomic.Int64
}

func (s *scales) Make(w journal.Wanted) (journal.Journal, error) {
	j, err := s.besideFile.Make(w)
	return weighed{j, s}, err
}

func (s *scales) Remove(j journal.Journal) error { return s.besideFile.Remove(j.(weighed).Journal) }

// weighed is the journal on the scales.
type weighed struct {
	journal.Journal
	scales *scales
}

func (j weighed) Append(ctx context.Context, g journal.Group) error {
	err := j.Journal.Append(ctx, g)
	j.scales.last = groupBytes(g)
	j.scales.all.Add(int64(j.scales.last))
	time.Sleep(j.scales.flush)
	return err
}

// Trim is called behind each checkpoint.
func (j weighed) Trim(ctx context.Context, at journal.Position) error {
	j.scales.checkpoints.Add(1)
	return j.Journal.Trim(ctx, at)
}

// groupBytes is how long a group is in the file of a journal, if it fits into one frame.
func groupBytes(g journal.Group) int {
	const frame, positions, align = 16, 88, 8
	var n [binary.MaxVarintLen64]byte
	size := frame + positions + binary.PutUvarint(n[:], uint64(len(g.Records)))
	for _, r := range g.Records {
		size += binary.PutUvarint(n[:], uint64(len(r))) + len(r)
	}
	return (size + 1 + align - 1) / align * align // it ends with at least one byte that is not 0
}

// onScales opens a ledger whose journal is on scales.
func onScales(t testing.TB, path string, flush time.Duration, options Options) (*Ledger, *scales) {
	t.Helper()
	file := check.Value(bolt.Open(path, false))(t)
	s := &scales{besideFile: besideFile(path), flush: flush}
	l := check.Value(openClaimed(t.Context(), file, s, options, "", false))(t)
	t.Cleanup(func() { _ = l.Close() })
	return l, s
}

// The baseline appends as many bytes as the journal does.
func TestTheScalesAreRight(t *testing.T) {
	path := votersFile(t, "9", crowd(9)...)
	l, s := onScales(t, path, 0, Options{})
	for i, name := range crowd(9) {
		release(t, l, releaseOf(t, name, name, "1"))
		carryOut(t, l, order(t, name+" and all", "2", crowd(i+1)...))
	}
	segments := check.Value(filepath.Glob(filepath.Join(s.dir(), "*.segment")))(t)
	const header, align = 112, 8
	written := int64(0)
	for _, segment := range segments {
		text := bytes.TrimRight(content(t, segment), "\x00") // which is room for more, or what a frame is aligned with
		written += int64((len(text)+align-1)/align*align - header)
	}
	got := s.all.Load()
	check.That(t, got == written && written != 0, "%d bytes were weighed, and the journal has %d", got, written)
	must(t, l.engine.Checkpoint())
	check.Equal(t, s.checkpoints.Load(), 1, "counted checkpoints")
	closed(t, l)
}
