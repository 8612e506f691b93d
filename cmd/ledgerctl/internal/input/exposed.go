package input

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
)

// WarnWritable warns of a ledger that others can write to.
func WarnWritable(p *output.Printer, path string) {
	if mode, open := openTo(path, 0o022); open {
		p.Warn(fmt.Sprintf("the ledger %q can be written to by others than its owner (mode %04o): chmod go-w %[1]q",
			path, mode))
	}
}

// openTo returns the permissions of a file, and whether any of some are among them.
func openTo(path string, any fs.FileMode) (mode fs.FileMode, open bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || runtime.GOOS == "windows" {
		return 0, false
	}
	mode = info.Mode().Perm()
	return mode, mode&any != 0
}

// WarnExposed warns of a key that others can read.
func WarnExposed(p *output.Printer, path string) {
	if mode, open := openTo(path, 0o077); open {
		p.Warn(fmt.Sprintf("the key in %q can be read by others than its owner (mode %04o): chmod 600 %[1]q", path,
			mode))
	}
}
