package kit

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
)

// Exit ends a program with an error, if there is one.
func Exit(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
}

// NewTable returns a table. Its columns end with tabs, its lines with newlines, and all columns are
// aligned to the right. Flush prints it.
func NewTable(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
}

// Left pads a text of the first column, so that this one is aligned to the left.
func Left(text string) string { return fmt.Sprintf("%-17s", text) }
