package ledger

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
)

// A ledger that is opened by a link, or by a relative path, has its journal beside the real file,
// even if the process changes its directory.
func TestOpen_ResolvesThePath(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "etc", "elsewhere"), 0o700))
	must(t, os.Symlink("../real.db", filepath.Join(dir, "etc", "panel.db")))
	for _, at := range [][2]string{{"panel.db", "etc"}, {"real.db", "."}} {
		name, in := at[0], at[1]
		t.Chdir(filepath.Join(dir, in))
		if in == "etc" {
			must(t, Create(t.Context(), name, CreateOptions{})) // a dangling link: its target is created
		}
		l := check.Value(Open(t.Context(), name, Options{}))(t)
		t.Chdir(filepath.Join(dir, "etc", "elsewhere"))
		must(t, l.DefineQuestion(t.Context(), in, api.Question{Name: name, Values: []string{"yes", "no"}}))
		_, err := os.Stat(filepath.Join(dir, "real.db.journal"))
		check.That(t, err == nil, "%s: %v", name, err)
		_, err = os.Lstat(filepath.Join(dir, "etc", "panel.db.journal"))
		check.That(t, err != nil, "the journal is beside the link")
		must(t, l.Compact(t.Context(), nil))
		must(t, l.Close())
	}
	info, err := os.Lstat(filepath.Join(dir, "etc", "panel.db"))
	check.That(t, err == nil && info.Mode()&os.ModeSymlink != 0, "the link is %v, %v", info, err)
}

// A link that leads to another file is a replacement, like a file that takes its place.
func TestOpen_LinkRetargeted_IsErrReplaced(t *testing.T) {
	dir := t.TempDir()
	path, other, link := filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db"), filepath.Join(dir, "link")
	must(t, errors.Join(Create(t.Context(), path, CreateOptions{}), Create(t.Context(), other, CreateOptions{}), os.Symlink("a.db", link)))
	l, err := Open(t.Context(), link, Options{})
	must(t, err)
	defer l.Close()
	must(t, errors.Join(os.Remove(link), os.Symlink("b.db", link)))
	err = l.DefineQuestion(t.Context(), "k", api.Question{Name: "q", Values: []string{"yes", "no"}})
	if !errors.Is(err, api.ErrReplaced) {
		t.Error(err)
	}
}

func TestNewFile_PathOfALedger_IsRefused(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "l.db"), filepath.Join(dir, "link")
	must(t, errors.Join(Create(t.Context(), path, CreateOptions{}), os.Symlink("l.db", link)))
	l := check.Value(Open(t.Context(), path, Options{}))(t)
	defer l.Close()
	for _, to := range []string{"", path, link, path + ".journal", path + ".key", path + ".sock"} {
		_, err := l.Backup(t.Context(), to, nil)
		check.That(t, errors.Is(err, api.ErrInvalid), "Backup to %q: %v", to, err)
	}
	for _, to := range []string{"", path + ".journal", path + ".tokens"} {
		err := Create(t.Context(), to, CreateOptions{})
		check.That(t, errors.Is(err, api.ErrInvalid), "Create of %q: %v", to, err)
	}
}
