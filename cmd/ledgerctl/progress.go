package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/sluicedp/sluice/ledger"
)

// bar shows on a terminal how far a long request has come.
type bar struct {
	out  io.Writer
	what string
	bar  *progressbar.ProgressBar
}

// progress returns a bar on stderr and what feeds it. The latter is nil if stderr is not a terminal
// or the user wants none.
func (a *app) progress(what string) (*bar, ledger.Progress) {
	b := &bar{out: a.stderr, what: what}
	if a.quiet || !isTerminal(a.stderr) {
		return b, nil
	}
	return b, b.show
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func (b *bar) show(done, total int) {
	if total == 0 {
		return
	}
	if b.bar == nil {
		b.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(b.out), progressbar.OptionSetDescription(b.what), progressbar.OptionSetWidth(30),
			progressbar.OptionShowCount(), progressbar.OptionThrottle(50*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	// A bar that cannot be drawn is no reason to stop.
	_ = b.bar.Set(done)
}

// clear takes the bar off the screen.
func (b *bar) clear() {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
}
