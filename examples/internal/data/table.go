package data

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// NewTable returns a table. Its columns end with tabs, its lines with newlines, and all columns are
// aligned to the right. Flush prints it.
func NewTable(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
}

// Left pads a text of the first column, so that this one is aligned to the left.
func Left(text string) string { return fmt.Sprintf("%-17s", text) }
