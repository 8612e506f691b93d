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

// Purposes of a file that does not have its final name yet.
const (
	kindNew     = "new"
	kindCopy    = "copy"
	kindCompact = "compact"
	// unfinished is the end of the names of such files.
	unfinished = ".sluice-unfinished"
)

// enterDir registers that this process creates files in a directory, until leave is called. If no
// other process is registered, it first removes the files that crashes have left there.
//
// A registered process has a shared lock on the directory. If another process, such as a script of
// the user, has locked the directory, the shared lock may fail. That does no harm: no process can
// get the exclusive lock then, which removeUnfinished needs.
func enterDir(path string) (leave func()) {
	dir, err := os.Open(path)
	if err != nil {
		return func() {} // the creation of the file will return the error
	}
	if ledgerfile.CanLock && ledgerfile.Lock(dir, true, 0, kv.ErrInUse) == nil { // exclusive, without waiting
		removeUnfinished(path)
	}
	_ = ledgerfile.Lock(dir, false, lockWait, kv.ErrInUse) // a shared lock now
	return func() { _ = dir.Close() }
}

// removeUnfinished removes unfinished files that no process has open. It ignores files that cannot
// be removed.
func removeUnfinished(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if name, ok := unfinishedName(entry.Name()); ok && entry.Type().IsRegular() {
			removeIfUnused(filepath.Join(dir, entry.Name()), filepath.Join(dir, name))
		}
	}
}

// unfinishedName reports whether temp is a name of [createTemp], such as
// .NAME.copy-123.sluice-unfinished, and returns NAME, the name that the file was to get.
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

// removeIfUnused removes the unfinished file temp, unless a process has it open. After a crash
// between the hard link and the removal of the temporary name, temp is a second name of the
// finished file name. Then removeIfUnused removes only temp.
func removeIfUnused(temp, name string) {
	file, err := os.OpenFile(temp, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return
	}
	// An open file is locked, so the exclusive lock fails.
	finished, err := os.Stat(name)
	if err == nil && os.SameFile(info, finished) || ledgerfile.Lock(file, true, 0, kv.ErrInUse) == nil {
		_ = os.Remove(temp)
	}
}
