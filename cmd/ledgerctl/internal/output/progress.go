// Package progress shows on a terminal how far long work has come.
package output

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Bar shows on a terminal how far a long request has come.
type Bar struct {
	out  io.Writer
	what string
	bar  *progressbar.ProgressBar
}

// NewBar returns a bar on a terminal and what feeds it. The latter is nil if out is none, or if the
// user wants none.
func NewBar(out io.Writer, quiet bool, what string) (*Bar, func(done, total int)) {
	b := &Bar{out: out, what: what}
	if quiet || !isTerminal(out) {
		return b, nil
	}
	return b, b.show
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func (b *Bar) show(done, total int) {
	if total == 0 {
		return
	}
	if b.bar == nil {
		b.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(b.out), progressbar.OptionSetDescription(b.what),
			progressbar.OptionSetWidth(30),
			progressbar.OptionShowCount(),
			progressbar.OptionThrottle(50*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	// A bar that cannot be drawn is no reason to stop.
	_ = b.bar.Set(done)
}

// Clear takes the bar off the screen.
func (b *Bar) Clear() {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
}
