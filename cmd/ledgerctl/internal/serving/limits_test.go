package serving

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
)

// parsed returns the limits in flags.
func parsed(t *testing.T, args ...string) (*limits, error) {
	t.Helper()
	l, flags := &limits{}, pflag.NewFlagSet("serve", pflag.ContinueOnError)
	input.Define(&cobra.Command{}, flags, l)
	if err := errors.Join(flags.Parse(args), input.CheckFlags(flags)); err != nil {
		return nil, err
	}
	return l, l.check()
}

// Without flags the limits are the defaults of package ledgerhttp. Each flag changes its limit.
func TestLimits_EachFlag_ChangesItsLimit(t *testing.T) {
	plain, err := parsed(t)
	check.Must(t, err)
	want := ledgerhttp.Limits{
		Body: 64 << 20, Memory: 256 << 20, Slowest: 16 << 10, Read: 10 * time.Second, Write: 30 * time.Second, Time: 10 * time.Minute,
		Running: 256, Streams: 1024, Each: 64, Rate: 1000, Burst: 2000, Records: 500_000, RecordBurst: 4_000_000,
		Connections: plain.Connections, PerAddress: 3000, Unproven: 20 * time.Second,
	}
	if got := plain.handler(); got != want || plain.Connections <= 0 || plain.Connections > 12000 {
		t.Errorf("%+v, %d connections", got, plain.Connections)
	}
	for arg, of := range map[string]func(l *limits) bool{
		"body=1MiB": func(l *limits) bool { return l.handler().Body == 1<<20 }, "memory=1GiB": func(l *limits) bool { return l.handler().Memory == 1<<30 },
		"slowest=1000": func(l *limits) bool { return l.handler().Slowest == 1000 }, "read=3s": func(l *limits) bool { return l.handler().Read == 3*time.Second },
		"write=3s": func(l *limits) bool { return l.handler().Write == 3*time.Second }, "time=3s": func(l *limits) bool { return l.handler().Time == 3*time.Second },
		"requests=3": func(l *limits) bool { return l.handler().Running == 3 }, "streams=3": func(l *limits) bool { return l.handler().Streams == 3 },
		"streams-each=3": func(l *limits) bool { return l.handler().Each == 3 }, "rate=0.5": func(l *limits) bool { return l.handler().Rate == 0.5 },
		"burst=3": func(l *limits) bool { return l.handler().Burst == 3 }, "header=3s": func(l *limits) bool { return l.server(new(ledgerhttp.Handler)).ReadHeaderTimeout == 3*time.Second },
		"idle=3s": func(l *limits) bool { return l.server(&ledgerhttp.Handler{}).IdleTimeout == 3*time.Second }, "connections=3": func(l *limits) bool { return l.handler().Connections == 3 },
		"connections-per-address=0": func(l *limits) bool { return l.handler().PerAddress == -1 }, "unproven=3s": func(l *limits) bool { return l.handler().Unproven == 3*time.Second },
		"records=3": func(l *limits) bool { return l.handler().Records == 3 }, "record-burst=3": func(l *limits) bool { return l.handler().RecordBurst == 3 },
		"large-requests=3": func(l *limits) bool { return l.handler().Panels == 3 },
	} {
		l, err := parsed(t, "--limit-"+arg)
		check.That(t, err == nil && of(l) && !of(plain), "%s: %+v, %v", arg, l, err)
	}
}

// Invalid limits are wrong usage, and the error names the flag.
func TestLimits_InvalidValues_AreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"--limit-requests=0":    "--limit-requests",
		"--limit-rate=NaN":      "--limit-rate",
		"--limit-rate=Inf":      "--limit-rate",
		"--limit-records=0":     "--limit-records",
		"--limit-connections=0": "--limit-connections must be above 0", "--limit-large-requests=0": "--limit-large-requests must be above 0",
		"--limit-large-requests=-1":                       "--limit-large-requests",
		"--limit-time=-1s":                                "--limit-time",
		"--limit-connections=-1":                          "--limit-connections",
		"--limit-connections-per-address=-1":              "--limit-connections-per-address",
		"--limit-body=2MiB --limit-memory=3MiB":           "more than half of --limit-memory 3MiB",
		fmt.Sprint("--limit-connections=", descriptors()): "open files are allowed",
	} {
		_, err := parsed(t, strings.Fields(args)...)
		if classed := (*output.Error)(nil); !errors.As(err, &classed) || classed.Code != output.ExitMisuse || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "1.5MiB", "1MB", "MiB", "9999999999GiB", "1 MiB"} {
		if _, err := parsed(t, "--limit-body", text); err == nil {
			t.Errorf("%q is taken for a size", text)
		}
	}
	for text, want := range map[string]string{"1024": "1KiB", "1000": "1000", "64MiB": "64MiB", "2048MiB": "2GiB"} {
		var s size
		if err := s.Set(text); err != nil || s.String() != want {
			t.Errorf("%q is %v, %v", text, s, err)
		}
	}
}

// Connections never use all open files, because the ledger needs some.
func TestSpare_LimitOfFiles_ReservesSomeForTheLedger(t *testing.T) {
	for files, want := range map[int]int{20000: 256, 1024: 256, 256: 64, 64: 16} {
		if got := spare(files); got != want {
			t.Errorf("%d of %d files are reserved, want %d", got, files, want)
		}
	}
}
