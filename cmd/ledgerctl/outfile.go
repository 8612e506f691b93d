package main

import (
	"context"
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"

	"github.com/sluicedp/sluice/ledger"
)

// outfile is a file of responses that gets its name only when it is complete. A nil one is none.
type outfile struct {
	path string
	temp *os.File
}

// newOutput begins a file, or none if path is empty, before anything is drawn: a draw that could not
// be handed out would be a waste. The file must not be one that the command reads.
func (a *app) newOutput(path, truth string) (*outfile, error) {
	if path == "" {
		return nil, nil
	}
	if info, err := os.Stat(path); err == nil {
		if !info.Mode().IsRegular() {
			return nil, usageError("", "--out: %q is not a regular file", path)
		}
		for _, other := range []string{a.db, a.db + ".key", truth} {
			if kept, err := os.Stat(other); err == nil && os.SameFile(info, kept) {
				return nil, usageError("", "--out would overwrite %q", other)
			}
		}
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, inputError("", "--out: %w", err)
	}
	return &outfile{path, temp}, nil
}

// save writes the responses that a raise brought about or found, and gives the file its name.
func (o *outfile) save(ctx context.Context, l *ledger.Ledger, f *raiseFlags, last uint64) error {
	if o == nil {
		return nil
	}
	err := o.write(ctx, l, f, last)
	if err == nil {
		err = o.temp.Sync()
	}
	if err = errors.Join(err, o.temp.Close()); err != nil {
		return err
	}
	return os.Rename(o.temp.Name(), o.path)
}

func (o *outfile) write(ctx context.Context, l *ledger.Ledger, f *raiseFlags, last uint64) error {
	wanted := make(map[string]bool, len(f.objects))
	for _, object := range f.objects {
		wanted[object] = true
	}
	out := csv.NewWriter(o.temp)
	if err := out.Write([]string{"object", "response"}); err != nil {
		return err
	}
	for r, err := range l.Responses(ctx, f.question, f.to) {
		if err != nil {
			return err
		}
		// What later requests recorded is not part of this one, however often it is repeated.
		if r.Event > last || f.objects != nil && !wanted[r.Object] {
			continue
		}
		if err := out.Write([]string{r.Object, r.Value}); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// discard removes the file if it did not get its name.
func (o *outfile) discard() {
	if o == nil {
		return
	}
	// After save both fail, as they should; otherwise an error is on its way already.
	_ = o.temp.Close()
	_ = os.Remove(o.temp.Name())
}
