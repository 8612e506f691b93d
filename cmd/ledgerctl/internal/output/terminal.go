package output

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// DefaultPager is the pager for long tables if $PAGER is not set. It ends at once if the text fits
// on the screen, and leaves the text there.
const DefaultPager = "less -FRX"

// show writes a table to standard output, with a pager if it is longer than the terminal.
func (p *Printer) show(text []byte) error {
	if screen, is := p.Stdout.(*os.File); is && p.Pager != "" && isLong(screen, string(text)) &&
		page(p.Pager, screen, p.Stderr, string(text)) {
		return nil
	}
	_, err := p.Stdout.Write(text)
	return err
}

// isLong reports whether a text has more lines than the terminal. It returns false if screen is not
// a terminal.
func isLong(screen *os.File, text string) bool {
	if !term.IsTerminal(int(screen.Fd())) {
		return false
	}
	width, height, err := term.GetSize(int(screen.Fd()))
	return err == nil && width > 0 && height > 0 && linesOf(text, width) >= height // the prompt takes one
}

// linesOf returns the number of lines of a text on a screen of a width.
func linesOf(text string, width int) (n int) {
	for line := range strings.Lines(text) {
		n += 1 + max(0, utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))-1)/width
	}
	return n
}

// page runs a pager with a text, and reports whether it succeeded. The pager is a program name with
// arguments, which no shell interprets.
func page(pager string, screen *os.File, stderr io.Writer, text string) bool {
	words := strings.Fields(pager)
	if len(words) == 0 {
		return false
	}
	// An interrupt is for the pager, which has the terminal. Without this channel it would also end
	// this process, before the pager.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	shown := exec.Command(words[0], words[1:]...)
	shown.Stdin, shown.Stdout, shown.Stderr = strings.NewReader(text), screen, stderr
	return shown.Run() == nil // to leave the pager before the end is no error
}

// Progress returns a function that shows the progress of a long request on the terminal. It returns
// nil if standard error is not a terminal, or with --quiet. The bar is removed before anything else
// is printed.
func (p *Printer) Progress(what string) func(done, total int) {
	if file, is := p.Stderr.(*os.File); p.Quiet || !is || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return func(done, total int) { p.progress(what, done, total) }
}

// progress draws the bar, which the first call creates.
func (p *Printer) progress(what string, done, total int) {
	if total == 0 {
		return
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(p.Stderr), progressbar.OptionSetDescription(what),
			progressbar.OptionSetWidth(30),
			progressbar.OptionShowCount(),
			progressbar.OptionThrottle(50*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	// The request continues even if the bar cannot be drawn.
	_ = p.bar.Set(done)
}

// clearBar removes the bar from the screen.
func (p *Printer) clearBar() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}
