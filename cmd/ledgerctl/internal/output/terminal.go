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

// DefaultPager shows a long table where $PAGER names no other program: it ends at once what fits,
// and leaves the text on the screen.
const DefaultPager = "less -FRX"

// show writes a table to standard output: page by page on a terminal that it is too long for.
func (p *Printer) show(text []byte) error {
	if screen, is := p.Stdout.(*os.File); is && p.Pager != "" && isLong(screen, string(text)) &&
		page(p.Pager, screen, p.Stderr, string(text)) {
		return nil
	}
	_, err := p.Stdout.Write(text)
	return err
}

// isLong reports whether a text takes more lines than there are on a terminal. What is none takes
// anything.
func isLong(screen *os.File, text string) bool {
	if !term.IsTerminal(int(screen.Fd())) {
		return false
	}
	width, height, err := term.GetSize(int(screen.Fd()))
	return err == nil && width > 0 && height > 0 && linesOf(text, width) >= height // the prompt takes one
}

// linesOf is how many lines a text takes on a screen.
func linesOf(text string, width int) (n int) {
	for line := range strings.Lines(text) {
		n += 1 + max(0, utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))-1)/width
	}
	return n
}

// page has a program show a text, and reports whether it did. The program is given by its name and
// arguments; no shell reads them.
func page(pager string, screen *os.File, stderr io.Writer, text string) bool {
	words := strings.Fields(pager)
	if len(words) == 0 {
		return false
	}
	// An interrupt is for the pager, which has the terminal: it must not be left there alone.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	shown := exec.Command(words[0], words[1:]...)
	shown.Stdin, shown.Stdout, shown.Stderr = strings.NewReader(text), screen, stderr
	return shown.Run() == nil // that it is left before the end is no error
}

// Progress returns what shows on a terminal how far a long request has come, or nil if standard
// error is none, or if the user wants none. The bar is gone before anything else is printed.
func (p *Printer) Progress(what string) func(done, total int) {
	if file, is := p.Stderr.(*os.File); p.Quiet || !is || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return func(done, total int) { p.progress(what, done, total) }
}

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
	// A bar that cannot be drawn is no reason to stop.
	_ = p.bar.Set(done)
}

// clearBar takes the bar off the screen.
func (p *Printer) clearBar() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}
