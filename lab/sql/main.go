// Command sql compares Sluice with the same ledger written by hand on SQLite and on PostgreSQL. It
// runs the same operations in turns, and prints a Markdown table. README.md describes what is
// compared, and what is not.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/sluicedp/sluice/lab/internal/report"
	"github.com/sluicedp/sluice/ledger"
)

func main() {
	objects := flag.Int("objects", 100_000, "number of objects that are enrolled and raised")
	rounds := flag.Int("rounds", 7, "number of measured rounds of reads and of releases")
	lives := flag.Int("lives", 2, "how many times all objects are enrolled and raised to three levels; at least 2")
	sustain := flag.Duration("sustain", time.Minute,
		"shortest time for each engine in the sustained rows; Sluice writes at least twenty checkpoints")
	memory := flag.Int64("memory", 64, "memory of Sluice for data that is not in the file yet, in MiB")
	hosts := flag.Bool("hosts", false, "measure only single releases: with the journal in PostgreSQL, with standbys, "+
		"and over a distance")
	dir := flag.String("dir", os.TempDir(), "directory on the disk to measure")
	flag.Parse()
	if *objects < 1 || *rounds < 1 || *lives < 2 || *sustain <= 0 || *memory < 1 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := compare(ctx, *dir, *objects, *rounds, *lives, *sustain, *memory<<20, *hosts); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

func compare(ctx context.Context, under string, objects, rounds, lives int, sustain time.Duration, memory int64,
	hosts bool) (err error) {
	dir, err := os.MkdirTemp(under, "sluice-sql-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	facts, err := report.Describe(dir)
	if err != nil {
		return err
	}
	var engines []*engine
	var closeAll func() error
	if hosts {
		engines, closeAll, err = hostEngines(ctx, dir)
	} else {
		engines, closeAll = findEngines(ctx, dir, memory)
	}
	if err != nil {
		return err
	}
	defer func() {
		if closed := closeAll(); err == nil {
			err = closed
		}
	}()
	r := &race{engines: engines, objects: objects, rounds: rounds, sustain: sustain, memory: memory, dir: dir,
		say: func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, format+"\n", args...)
		}}
	if r.grouped = hosts; hosts {
		err = r.hosts(ctx)
	} else {
		err = r.run(ctx, lives)
	}
	if err != nil {
		return err
	}
	fmt.Printf("%d objects.\n\n%s", objects, facts)
	for _, e := range engines {
		if e.version != "" {
			fmt.Printf("- %s: %s\n", e.name, e.version)
		}
	}
	fmt.Println()
	return r.write(os.Stdout)
}

// findEngines returns Sluice and the database engines that are available on the machine.
func findEngines(ctx context.Context, dir string, memory int64) (engines []*engine, closeAll func() error) {
	engines = []*engine{
		{name: "Sluice", version: "bbolt " + moduleVersion("bbolt"),
			open: func(ctx context.Context, dir string) (contestant, error) {
				return openSluiceBy(ctx, dir, ledger.Options{Memory: memory})
			}},
		sqliteEngine("SQLite, in C", "sqlite3", "github.com/mattn/go-sqlite3"),
		sqliteEngine("SQLite, in Go", "sqlite", "modernc.org/sqlite"),
	}
	postgres, closeAll := postgresEngine(ctx, filepath.Dir(dir))
	engines = append(engines, postgres)
	for _, e := range engines[1:] {
		if e.missing == nil {
			e.try(ctx, dir)
		}
	}
	return engines, closeAll
}

// try opens an engine once, to find out its version and whether it works on this machine.
func (e *engine) try(ctx context.Context, dir string) {
	scratch, err := os.MkdirTemp(dir, "try-")
	if err != nil {
		e.missing = err
		return
	}
	defer os.RemoveAll(scratch)
	c, err := e.open(ctx, scratch)
	if err != nil {
		e.missing = err
		return
	}
	e.version = c.(byHand).db.version() + ", " + e.driver + " " + moduleVersion(e.driver)
	e.missing = c.close()
}

// moduleVersion returns the version of a dependency of this program, by its path or the end of its
// path.
func moduleVersion(path string) string {
	built, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range built.Deps {
		if m.Path == path || strings.HasSuffix(m.Path, "/"+path) {
			return m.Version
		}
	}
	return ""
}

func sqliteEngine(name, driver, module string) *engine {
	return &engine{name: name, driver: module, open: func(_ context.Context, dir string) (contestant, error) {
		return asContestant(openSQLite(driver, filepath.Join(dir, "sqlite.db")))
	}}
}

// asContestant opens the book of a database.
func asContestant[D database](db D, err error) (contestant, error) {
	if err != nil {
		return nil, err
	}
	b, err := openBook(db, valuesAsked)
	if err != nil {
		_ = db.close()
		return nil, err
	}
	return byHand{b}, nil
}

// postgresEngine starts a PostgreSQL server, if one is installed. Each contestant has its own
// database in it.
func postgresEngine(ctx context.Context, under string) (_ *engine, stop func() error) {
	s, err := startServer(ctx, under)
	if err != nil {
		return &engine{name: "PostgreSQL", missing: err}, func() error { return nil }
	}
	made := 0
	open := func(ctx context.Context, _ string) (contestant, error) {
		made++
		address, err := s.fresh(ctx, fmt.Sprint("life", made))
		if err != nil {
			return nil, err
		}
		return asContestant(openPostgres(ctx, address))
	}
	return &engine{name: "PostgreSQL", driver: "github.com/jackc/pgx/v5", open: open}, s.stop
}
