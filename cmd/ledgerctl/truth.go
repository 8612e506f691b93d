package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
)

// open opens a file to read; the name - stands for stdin.
func (a *app) open(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(a.stdin), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, inputError("", "%w", err)
	}
	return file, nil
}

// rows passes the rows of a CSV file to each. When ctx ends, it returns the reason.
func (a *app) rows(ctx context.Context, path string, c columns, each func(entry)) error {
	return a.stream(ctx, path, func(in io.Reader) error {
		for e, err := range readCSV(path, in, c) {
			if cause := ctx.Err(); cause != nil {
				return cause
			}
			if err != nil {
				return err
			}
			each(e)
		}
		return nil
	})
}

// stream opens a file for as long as use reads it. When ctx ends, it returns the reason.
func (a *app) stream(ctx context.Context, path string, use func(io.Reader) error) error {
	in, err := a.open(path)
	if err != nil {
		return err
	}
	// Closing it also ends a read that waits for the other end of a pipe.
	stop := context.AfterFunc(ctx, func() { _ = in.Close() })
	defer func() {
		if stop() {
			_ = in.Close() // it was only read
		}
	}()
	err = use(in)
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	return err
}

// truths reads true values from a CSV file when the ledger first asks for one. It is a
// [ledger.TruthFunc] by its method ask.
type truths struct {
	app     *app
	path    string // "" if there is no file
	columns columns
	values  map[string]string
}

func (t *truths) ask(ctx context.Context, _ string, objects []string) ([]string, error) {
	if t.path == "" {
		return nil, usageError("give --truth FILE", "a draw is needed, for which no true values are given")
	}
	if t.values == nil {
		if err := t.load(ctx); err != nil {
			return nil, err
		}
	}
	values := make([]string, len(objects))
	for i, object := range objects {
		values[i] = t.values[object]
	}
	return values, nil
}

// load reads the file. Equal values share their memory.
func (t *truths) load(ctx context.Context) error {
	values, known := map[string]string{}, map[string]string{}
	err := t.app.rows(ctx, t.path, t.columns, func(e entry) {
		value, seen := known[e.value]
		if !seen {
			value = strings.Clone(e.value)
			known[value] = value
		}
		values[e.object] = value
	})
	if err == nil {
		t.values = values
	}
	return err
}

// textOrFile returns the text of a flag, or of the file it names behind an @, up to a size.
func (a *app) textOrFile(flag string, most int64) ([]byte, error) {
	path, named := strings.CutPrefix(flag, "@")
	if !named {
		return []byte(flag), nil
	}
	in, err := a.open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(in, most))
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, inputError("", "%w", err)
	}
	return text, nil
}
