package bolt

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// What a file is made for that has not got its name yet.
const (
	kindNew     = "new"
	kindCopy    = "copy"
	kindCompact = "compact"
	// unfinished ends the names of such files.
	unfinished = ".sluice-unfinished"
)

// enter says that this process makes files in a directory, until it is told that it has. If it is
// the only one, and only then, it removes first what crashes have left there. Who works in a
// directory has a shared lock on it. That may be refused, to somebody whose own script has locked
// the directory, say: but then nobody else can be alone there either.
func enter(path string) (leave func()) {
	dir, err := os.Open(path)
	if err != nil {
		return func() {} // who makes a file there will be told
	}
	if ledgerfile.CanLock && ledgerfile.Lock(dir, true, 0, kv.ErrInUse) == nil {
		sweep(path)
	}
	_ = ledgerfile.Lock(dir, false, lockWait, kv.ErrInUse)
	return func() { _ = dir.Close() }
}

// sweep removes unfinished files that nobody has open. What cannot be removed stays.
func sweep(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if name, ok := unfinishedName(entry.Name()); ok && entry.Type().IsRegular() {
			sweepFile(filepath.Join(dir, entry.Name()), filepath.Join(dir, name))
		}
	}
}

// unfinishedName tells whether a file is one of [createTemp], and the name it was to get.
func unfinishedName(temp string) (name string, ok bool) {
	rest, ok := strings.CutSuffix(temp, unfinished)
	dot := strings.LastIndexByte(rest, '.')
	if !ok || dot < 2 || rest[0] != '.' {
		return "", false
	}
	kind, number, _ := strings.Cut(rest[dot+1:], "-")
	_, err := strconv.ParseUint(number, 10, 64)
	return rest[1:dot], err == nil && slices.Contains([]string{kindNew, kindCopy, kindCompact}, kind)
}

// sweepFile removes an unfinished file, unless it is open. It is another name of a finished one
// after a crash between the link and the removal of the first name; then only that name goes.
func sweepFile(temp, name string) {
	file, err := os.OpenFile(temp, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return
	}
	finished, err := os.Stat(name)
	if err == nil && os.SameFile(info, finished) || ledgerfile.Lock(file, true, 0, kv.ErrInUse) == nil {
		_ = os.Remove(temp)
	}
}
