package callback

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger/api"
)

var errWork = errors.New("work failed")

func TestWithProgress_ProgressWaits_WorkDoesNot(t *testing.T) {
	worked := make(chan struct{})
	var done []int
	err := WithProgress(t.Context(), func(n, total int) {
		<-worked // in the first call, until all work is done
		done = append(done, n, total)
	}, func(_ context.Context, report func(done, total int)) error {
		for i := range 3 {
			report(i, 2)
		}
		close(worked)
		return errWork
	})
	if !errors.Is(err, errWork) || !slices.Equal(done, []int{0, 2, 1, 2, 2, 2}) {
		t.Errorf("%v, progress %d; want the error of work, after all reports in order", err, done)
	}
}

func TestWithProgress_ProgressPanics_EndsTheContextAndContinuesAfterWork(t *testing.T) {
	ended := false
	defer func() {
		if p := recover(); p != "host" || !ended {
			t.Errorf("recovered %v, work ended: %v; want the panic after work", p, ended)
		}
	}()
	_ = WithProgress(t.Context(), func(int, int) { panic("host") }, func(ctx context.Context, report func(done, total int)) error {
		report(1, 1)
		<-ctx.Done()
		ended = true
		return nil
	})
	t.Error("WithProgress returned")
}

func TestWithProgress_WorkPanics_PanicsOnTheCallersGoroutine(t *testing.T) {
	for name, progress := range map[string]func(done, total int){"with progress": func(int, int) {}, "without": nil} {
		func() {
			defer func() {
				if p := recover(); p != "work" {
					t.Errorf("%s: recovered %v", name, p)
				}
			}()
			_ = WithProgress(t.Context(), progress, func(context.Context, func(done, total int)) error { panic("work") })
			t.Errorf("%s: returned", name)
		}()
	}
}

func TestSeq_PanicOfTheSequence_IsItsLastError(t *testing.T) {
	sequence := func(yield func(int, error) bool) {
		if yield(1, nil) {
			panic(io.ErrUnexpectedEOF)
		}
	}
	var read []int
	var last error
	for n, err := range Seq("Journal.Read", iter.Seq2[int, error](sequence)) {
		read, last = append(read, n), err
	}
	of, is := errors.AsType[*api.PanicError](last)
	if !slices.Equal(read, []int{1, 0}) || !is || of.Function != "Journal.Read" || !errors.Is(last, io.ErrUnexpectedEOF) {
		t.Errorf("read %d, %v; want 1, and a PanicError of Journal.Read", read, last)
	}
}

func TestSeq_PanicOfTheBody_Continues(t *testing.T) {
	defer func() {
		if p := recover(); p != "body" {
			t.Errorf("recovered %v", p)
		}
	}()
	for range Seq("Journal.Read", iter.Seq2[int, error](func(yield func(int, error) bool) { yield(1, nil) })) {
		panic("body")
	}
}

// panicking is a writer that panics once.
type panicking struct {
	bytes.Buffer
	done bool
}

func (w *panicking) Write(p []byte) (int, error) {
	if !w.done {
		w.done = true
		panic("writer")
	}
	return w.Buffer.Write(p)
}

func TestLog_WriterPanics_OnlyThatLineIsLost(t *testing.T) {
	var to panicking
	var log Log
	log.Use(zerolog.New(&to))
	for _, text := range []string{"lost", "kept"} {
		log.Now(func(log *zerolog.Logger) { log.Info().Msg(text) })
	}
	if got := to.String(); strings.Contains(got, "lost") || !strings.Contains(got, "kept") {
		t.Errorf("log %q; want the second line alone", got)
	}
}

func TestLog_Later_WaitsForNoWriter(t *testing.T) {
	written, proceed := make(chan string), make(chan struct{})
	var log Log
	log.Use(zerolog.New(writer(func(p []byte) {
		<-proceed
		written <- string(p)
	})))
	for _, text := range []string{"first", "second"} {
		log.Say(zerolog.ErrorLevel, errWork, text) // returns although the writer waits
	}
	close(proceed)
	for _, text := range []string{"first", "second"} {
		if line := <-written; !strings.Contains(line, text) || !strings.Contains(line, errWork.Error()) {
			t.Errorf("line %q, want %q", line, text)
		}
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

func TestLog_Guard_LogsThePanicWithItsStack(t *testing.T) {
	var to bytes.Buffer
	var log Log
	log.Use(zerolog.New(&to))
	log.Guard("Observer", func() { panic("host") })
	if got := to.String(); !strings.Contains(got, `"function":"Observer","panic":"host"`) || !strings.Contains(got, "callback_test.go") {
		t.Errorf("log %q; want the function, the value and the stack", got)
	}
}

func TestLog_Debugging_CallsNoSampler(t *testing.T) {
	var log, silent Log
	log.Use(zerolog.New(io.Discard).Sample(sampler(func() { t.Error("the sampler was called") })))
	if !log.Debugging() || silent.Debugging() {
		t.Errorf("debugging: %v, of the zero value %v", log.Debugging(), silent.Debugging())
	}
}

type sampler func()

func (s sampler) Sample(zerolog.Level) bool {
	s()
	return true
}

func TestReport_WithReport_ReportsOnce(t *testing.T) {
	reports := 0
	err := Report(WithReport(errWork, func() { reports++ }))
	if err != errWork || reports != 1 || Report(err) != errWork || reports != 1 {
		t.Errorf("%v, reported %d times; want the error alone, reported once", err, reports)
	}
}
