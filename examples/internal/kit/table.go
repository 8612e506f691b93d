package kit

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// Exit ends a program with an error, if there is one.
func Exit(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
}

// NewTable returns a table whose columns end with tabs and whose lines end with newlines. All
// columns are aligned to the right. Flush prints it.
func NewTable(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
}

// HeadedTable returns a table like [NewTable], with a first line of column names that end with
// tabs. The first of them is aligned to the left.
func HeadedTable(out io.Writer, names string) *tabwriter.Writer {
	rows := NewTable(out)
	first, others, _ := strings.Cut(names, "\t")
	fmt.Fprintln(rows, Left(first)+"\t"+others)
	return rows
}

// Left pads a text of the first column, so that the column is aligned to the left.
func Left(text string) string { return fmt.Sprintf("%-17s", text) }
