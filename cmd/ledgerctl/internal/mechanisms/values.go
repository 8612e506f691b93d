package mechanisms

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/rrchain"
)

// ReadValues returns the values that a flag lists, or those in the file that it names. A question
// has more than one value, so that a single one that begins with @ cannot be meant as such.
func ReadValues(values []string) ([]string, error) {
	if !slices.ContainsFunc(values, func(v string) bool { return strings.HasPrefix(v, "@") }) {
		for _, v := range values {
			if strings.TrimSpace(v) != v {
				return nil, output.UsageError("only commas stand between values, such as --values yes,no",
					"--values: the value %q begins or ends with a blank", v)
			}
		}
		return values, nil
	}
	if len(values) > 1 {
		return nil, output.UsageError("a file's name cannot have a comma in it; a value that begins with @ can "+
			"stand in a file", "--values takes a list of values or one @FILE, not both")
	}
	text, err := readText(values[0][1:], rrchain.MaxValues*(256+2))
	if err != nil {
		return nil, output.InputError("", "--values: %w", err)
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(lines[i]) != lines[i] {
			return nil, output.InputError("", "--values: line %d of %s begins or ends with a blank", i+1, values[0][1:])
		}
	}
	return lines, nil
}

// readText reads a regular file of up to so many bytes, without a byte order mark.
func readText(path string, most int64) (string, error) {
	// It is asked before it is opened, because a named pipe opens only once its other end does.
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return "", fmt.Errorf("%q is not a file of up to %d bytes", path, most)
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(input.Text(io.LimitReader(file, most)))
	return string(text), err
}
