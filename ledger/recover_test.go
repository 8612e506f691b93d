package ledger

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	tests "github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv/bolt"
)

// crashCopy copies a file and its journal as they are now, as a process that crashes leaves them.
func crashCopy(t testing.TB, path string) (copied string) {
	t.Helper()
	copied = filepath.Join(tests.TempDir(t), "left.db")
	must(t, os.WriteFile(copied, content(t, path), 0o600))
	if _, err := os.Stat(path + ".journal"); err == nil {
		must(t, os.CopyFS(copied+".journal", os.DirFS(path+".journal")))
	}
	return copied
}

// Folding the journal restores every record of the process that left it, byte for byte. Its
// requests include a forgotten object, a withdrawn one, a sale and a reservation.
func TestRecovery_JournalFolded_RestoresEveryRecord(t *testing.T) {
	names := crowd(50)
	path := filepath.Join(tests.TempDir(t), "ledger.db")
	must(t, Create(t.Context(), path, CreateOptions{}))
	options := Options{TruthKey: truthKey(), NoiseKey: noiseKeys("one")}
	l := sellers(t, open(t, path, options), "9", "9", names...)
	must(t, l.engine.Checkpoint())
	for i, name := range names {
		release(t, l, releaseOf(t, fmt.Sprint("r", i), name, fmt.Sprint(1+i%3)))
	}
	sell(t, l, purchase(t, "s", "acme", "2", names[10:30]...))
	must(t, check.Err(l.Reserve(t.Context(), reserveOne(t, "reserved"))))
	forget(t, l, names[12])
	must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: names[13]}))
	raise(t, l, raiseOf(t, "all", "4", names[20:40]...))
	must(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: "e", Question: "vote", Object: names[41]}))
	release(t, l, releaseOf(t, "again", names[41], "1"))
	want := pairs(t, l.engine.Store)
	copied := crashCopy(t, path)
	before := tree(t, copied)
	reader := open(t, copied, Options{ReadOnly: true})
	wantSameRecords(t, "read only", pairs(t, reader.engine.Store), want)
	wantClean(t, reader, api.VerifyRequest{})
	closed(t, reader)
	if after := tree(t, copied); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("a reader has changed the files: %v, before %v", after, before)
	}
	closed(t, l)
	l = open(t, copied, options)
	wantSameRecords(t, "recovered", pairs(t, l.engine.Store), want)
	wantClean(t, l, api.VerifyRequest{})
	closed(t, l)
	files := tree(t, copied)
	check.That(t, len(files) == 1, "the files are %v", files)
}

// tree returns the files in the directory of a file, with their sizes and modification times.
func tree(t testing.TB, path string) (files []string) {
	t.Helper()
	must(t, filepath.WalkDir(filepath.Dir(path), func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		files = append(files, fmt.Sprint(at, info.Size(), info.ModTime()))
		return err
	}))
	return files
}

// After many commits and a checkpoint, the journal has only what the file does not have yet.
func TestJournal_ManyCommits_StaysShort(t *testing.T) {
	path := votersFile(t, "900", crowd(100)...)
	l := open(t, path, Options{Memory: 64 << 10})
	for i := range tests.Tries(2000, 5000, 50_000) {
		release(t, l, releaseOf(t, fmt.Sprint(i), crowd(100)[i%100], fmt.Sprint(1+i/100)))
	}
	must(t, l.engine.Checkpoint())
	sum := int64(0)
	must(t, filepath.WalkDir(path+".journal", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		sum += info.Size()
		return err
	}))
	check.That(t, sum <= 4<<20, "the journal has %d bytes, and the file has everything", sum)
	wantClean(t, l, api.VerifyRequest{})
}

// To fold a journal of any length takes the memory that a memtable may have and the pages that it
// changes at once, and no more.
func TestRecovery_LongJournal_TakesLittleMemory(t *testing.T) {
	const most = 28 << 20 // 20,000 people would take 34 MiB in one piece, and three times as many 100 MiB
	path := votersFile(t, "100", crowd(tests.Tries(20_000, 20_000, 100_000))...)
	l := open(t, path, Options{Memory: 4 << 30})
	for i := range 4 {
		raise(t, l, raiseOf(t, fmt.Sprint("raise ", i), fmt.Sprint(1+i)))
	}
	events := stats(t, l).Events
	kill(t, l)
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	file := check.Value(bolt.Open(path, false))(t)
	s, options := &measured{Store: file}, Options{Memory: 1 << 20}
	l = check.Value(openClaimed(t.Context(), s, journals(path, options), options, "", false))(t)
	n := stats(t, l).Events
	check.That(t, n == events, "%d events of %d are there", n, events)
	closed(t, l)
	grown := int64(s.most) - int64(before.HeapAlloc)
	check.That(t, grown <= most, "to fold %d events takes %d KiB", events, grown>>10)
}

// A ledger that is only read, or whose requests commit nothing, has no journal, and the file stays
// as it is.
func TestJournal_NothingCommitted_IsNotCreated(t *testing.T) {
	path := votersFile(t, "1", "ann")
	before := content(t, path)
	l := open(t, path, Options{})
	objectOf(t, l, "ann")
	_, err := l.Quote(t.Context(), api.Order{Buyer: "acme", Question: "vote", Epsilon: eps(t, "1"), Objects: []string{"ann"}})
	must(t, err)
	closed(t, l)
	if _, err := os.Stat(path + ".journal"); !os.IsNotExist(err) || string(content(t, path)) != string(before) {
		t.Errorf("the journal: %v; or the file has changed", err)
	}
}

// BenchmarkOpenAfterACrash opens a ledger whose process died with many commits in the journal.
func BenchmarkOpenAfterACrash(b *testing.B) {
	path, names := benchFile(b, benchCrowd)
	l := open(b, path, Options{})
	const commits = 20_000
	for i := range commits {
		release(b, l, releaseOf(b, fmt.Sprint(i), names[i*7919%len(names)], "0.5"))
	}
	events := stats(b, l).Events
	kill(b, l)
	for b.Loop() {
		l := check.Value(Open(b.Context(), path, Options{ReadOnly: true}))(b)
		b.StopTimer()
		check.That(b, stats(b, l).Events == events, "not all is there")
		must(b, l.Close())
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/1e3/float64(b.N)/(2*commits), "µs/event")
}
