package serving

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
)

// limits are the flags for the limits of callers.
type limits struct {
	Connections int           `flag:"limit-connections,positive" zero:"leave it out for the default"`
	PerAddress  int           `flag:"limit-connections-per-address" default:"3000"`
	Unproven    time.Duration `flag:"limit-unproven,positive" default:"20s"`
	Header      time.Duration `flag:"limit-header,positive" default:"10s"`
	Idle        time.Duration `flag:"limit-idle,positive" default:"2m"`
	Body        size          `flag:"limit-body" default:"64MiB"`
	Memory      size          `flag:"limit-memory" default:"256MiB"`
	Slowest     size          `flag:"limit-slowest" default:"16KiB"`
	Read        time.Duration `flag:"limit-read,positive" default:"10s"`
	Write       time.Duration `flag:"limit-write,positive" default:"30s"`
	Time        time.Duration `flag:"limit-time,positive" default:"10m"`
	Requests    int           `flag:"limit-requests,positive" default:"256"`
	Streams     int           `flag:"limit-streams,positive" default:"1024"`
	StreamsEach int           `flag:"limit-streams-each,positive" default:"64"`
	Rate        float64       `flag:"limit-rate,positive" default:"1000"`
	Burst       int           `flag:"limit-burst,positive" default:"2000"`
	Records     float64       `flag:"limit-records,positive" default:"500000"`
	RecordBurst int           `flag:"limit-record-burst,positive" default:"4000000"`
	Large       int           `flag:"limit-large-requests,positive" zero:"leave it out for the default"`
}

// check returns an error if the limits exclude each other, or need more open files than the process
// may have. It sets the default of Connections.
func (l *limits) check() error {
	if l.PerAddress < 0 {
		return output.UsageError("0 means no limit", "--limit-connections-per-address is below 0")
	}
	if l.Body > l.Memory/2 {
		return output.UsageError("raise --limit-memory, or lower --limit-body",
			"--limit-body %v is more than half of --limit-memory %v", l.Body, l.Memory)
	}
	most := descriptors() - spare(descriptors())
	if l.Connections > most {
		return output.UsageError("raise the limit of open files (ulimit -n), or lower --limit-connections",
			"--limit-connections is %d, but %d open files are allowed, of which the ledger needs %d", l.Connections,
			descriptors(), spare(descriptors()))
	}
	l.Connections = cmp.Or(l.Connections, min(12000, most))
	return nil
}

// spare returns how many of the allowed open files are reserved for the ledger, its journal and its
// copies.
func spare(files int) int { return min(256, files/4) }

// handler returns the limits for the handler of requests.
func (l *limits) handler() ledgerhttp.Limits {
	perAddress := l.PerAddress
	if perAddress == 0 { // no limit, which is −1 for the handler: its 0 is the default
		perAddress = -1
	}
	return ledgerhttp.Limits{
		Connections: l.Connections, PerAddress: perAddress, Unproven: l.Unproven,
		Body: int64(l.Body), Memory: int64(l.Memory), Slowest: int(l.Slowest), Read: l.Read, Write: l.Write,
		Time: l.Time, Running: l.Requests, Streams: l.Streams, Each: l.StreamsEach, Rate: l.Rate, Burst: l.Burst,
		Records: l.Records, RecordBurst: l.RecordBurst, Panels: l.Large,
	}
}

// server returns an HTTP server for the handler, with the time limits for headers and idle
// connections.
func (l *limits) server(h *ledgerhttp.Handler) *http.Server {
	s := h.Server()
	s.ReadHeaderTimeout, s.IdleTimeout = l.Header, l.Idle
	return s
}

// size is a number of bytes.
type size int64

// units returns the units of sizes, the largest first. Each is 1024 times the next.
func units() []string { return []string{"GiB", "MiB", "KiB", ""} }

// unitBytes returns the number of bytes of the unit at an index of units.
func unitBytes(index int) size { return 1 << (10 * (len(units()) - 1 - index)) }

// mostSize is the largest accepted size.
const mostSize = 1 << 40

// Set implements [pflag.Value].
func (s *size) Set(text string) error {
	for i, unit := range units() {
		number, is := strings.CutSuffix(text, unit)
		n, err := strconv.ParseInt(number, 10, 64)
		if is && err == nil && 0 < n && size(n) <= mostSize/unitBytes(i) {
			*s = size(n) * unitBytes(i)
			return nil
		}
	}
	return fmt.Errorf("a size is a number of bytes, such as 1000000, 512KiB, 64MiB or 1GiB")
}

// String implements [pflag.Value].
func (s size) String() string {
	for i, unit := range units() {
		if s%unitBytes(i) == 0 && s != 0 {
			return strconv.FormatInt(int64(s/unitBytes(i)), 10) + unit
		}
	}
	return "0"
}

// Type implements [pflag.Value].
func (s size) Type() string { return "SIZE" }
