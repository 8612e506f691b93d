package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// bar shows on a terminal how many runs are done. A nil one shows nothing.
type bar struct{ shown *progressbar.ProgressBar }

// newBar returns a bar, or nil if standard error is not a terminal, or with --quiet.
func (p *printer) newBar(runs int) *bar {
	file, isFile := p.stderr.(*os.File)
	if p.quiet || !isFile || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return &bar{progressbar.NewOptions(runs,
		progressbar.OptionSetWriter(file), progressbar.OptionSetDescription("running"), progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(), progressbar.OptionThrottle(50*time.Millisecond),
		progressbar.OptionClearOnFinish())}
}

func (b *bar) show(runs, _ int) {
	if b != nil {
		_ = b.shown.Set(runs) // a bar that cannot be drawn does not stop the work
	}
}

func (b *bar) clear() {
	if b != nil {
		_ = b.shown.Clear()
	}
}
