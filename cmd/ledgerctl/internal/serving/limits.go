package serving

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/ledgerhttp"
)

// limits are the flags that bound what callers may take.
type limits struct {
	connections, perAddress     int
	unproven, header, idle      time.Duration
	body, memory, slowest       size
	read, write, time           time.Duration
	requests, streams, perOwner int
	rate, records               float64
	burst, recordBurst, panels  int
}

func (l *limits) define(flags *pflag.FlagSet) {
	*l = limits{
		perAddress: 3000, unproven: 20 * time.Second, header: 10 * time.Second, idle: 2 * time.Minute,
		body: 64 << 20, memory: 256 << 20, slowest: 16 << 10,
		read: 10 * time.Second, write: 30 * time.Second, time: 10 * time.Minute,
		requests: 256, streams: 1024, perOwner: 64, rate: 1000, burst: 2000, records: 500_000, recordBurst: 4_000_000,
	}
	flags.IntVar(&l.connections, "limit-connections", 0,
		"the `NUMBER` of connections at a time (default: 12000, or what the limit of open files allows)")
	flags.IntVar(&l.perAddress, "limit-connections-per-address", l.perAddress,
		"the `NUMBER` of connections of one IP address at a time; 0, behind a reverse proxy, does not count by address")
	flags.DurationVar(&l.unproven, "limit-unproven", l.unproven,
		"how long a connection may be open before a request has a valid token")
	flags.DurationVar(&l.header, "limit-header", l.header, "how long the header of a request may take")
	flags.DurationVar(&l.idle, "limit-idle", l.idle, "how long a connection may wait for its next request")
	flags.Var(&l.body, "limit-body", "the largest body of a request, such as 64MiB")
	flags.Var(&l.memory, "limit-memory",
		"for bodies, and answers that are being sent, at a time; at least twice --limit-body")
	flags.Var(&l.slowest, "limit-slowest", "what callers must send or read each second in the long run")
	flags.DurationVar(&l.read, "limit-read", l.read, "how far a body may fall behind --limit-slowest")
	flags.DurationVar(&l.write, "limit-write", l.write,
		"how far the reader of an answer may fall behind --limit-slowest")
	flags.DurationVar(&l.time, "limit-time", l.time, "how long a request may run that is no stream, list or copy")
	flags.IntVar(&l.requests, "limit-requests", l.requests, "the `NUMBER` of requests that run at a time")
	flags.IntVar(&l.streams, "limit-streams", l.streams, "the `NUMBER` of streams of events, and lists, at a time")
	flags.IntVar(&l.perOwner, "limit-streams-each", l.perOwner,
		"the `NUMBER` of streams and lists of one principal at a time")
	flags.Float64Var(&l.rate, "limit-rate", l.rate,
		"the `NUMBER` of requests of one principal each second, in the long run")
	flags.IntVar(&l.burst, "limit-burst", l.burst,
		"the `NUMBER` of requests of one principal at once, before --limit-rate counts")
	flags.Float64Var(&l.records, "limit-records", l.records,
		"the `NUMBER` of records that the large requests of one principal read each second, in the long run; a "+
			"person is two or three")
	flags.IntVar(&l.recordBurst, "limit-record-burst", l.recordBurst,
		"the `NUMBER` of records that one principal's large requests read at once, before --limit-records counts")
	flags.IntVar(&l.panels, "limit-large-requests", 0,
		"the `NUMBER` of large requests that compute at a time, while others wait (default: half as many as "+
			"processors, at least 2)")
}

// check refuses limits that cannot be, and finds out how many connections there can be.
func (l *limits) check() error {
	for name, value := range map[string]float64{
		"unproven": float64(l.unproven), "header": float64(l.header), "idle": float64(l.idle), "read": float64(l.read),
		"write": float64(l.write),
		"time":  float64(l.time), "requests": float64(l.requests), "streams": float64(l.streams),
		"streams-each": float64(l.perOwner),
		"rate":         l.rate, "burst": float64(l.burst), "records": l.records, "record-burst": float64(l.recordBurst),
		"large-requests":          float64(l.panels) + 1,
		"connections-per-address": float64(l.perAddress) + 1, "connections": float64(l.connections) + 1,
	} {
		if !(value > 0) || math.IsInf(value, 1) {
			return output.UsageError("leave it out for the default", "--limit-%s is not positive", name)
		}
	}
	if l.body > l.memory/2 {
		return output.UsageError("raise --limit-memory, or lower --limit-body",
			"--limit-body %v is more than half of --limit-memory %v", l.body, l.memory)
	}
	most := descriptors() - spare(descriptors())
	if l.connections > most {
		return output.UsageError("raise the limit of open files (ulimit -n), or lower --limit-connections",
			"--limit-connections is %d, and %d open files are allowed, of which the ledger needs %d", l.connections,
			descriptors(), spare(descriptors()))
	}
	l.connections = cmp.Or(l.connections, min(12000, most))
	return nil
}

// spare is how many of so many files that may be open are left for those of the ledger, its journal
// and its copies.
func spare(files int) int { return min(256, files/4) }

// handler returns the limits of requests.
func (l *limits) handler() ledgerhttp.Limits {
	return ledgerhttp.Limits{
		Body: int64(l.body), Memory: int64(l.memory), Slowest: int(l.slowest), Read: l.read, Write: l.write,
		Time:    l.time,
		Running: l.requests, Streams: l.streams, Each: l.perOwner, Rate: l.rate, Burst: l.burst,
		Records: l.records, RecordBurst: l.recordBurst, Panels: l.panels,
	}
}

// bound returns a listener whose connections are bounded.
func (l *limits) bound(at net.Listener) net.Listener {
	c := ledgerhttp.Connections{Most: l.connections, PerAddress: l.perAddress, Unproven: l.unproven}
	if l.perAddress == 0 {
		c.PerAddress = -1
	}
	return c.Bound(at)
}

// server returns a server of a handler.
func (l *limits) server(h *ledgerhttp.Handler) *http.Server {
	s := ledgerhttp.Server(h)
	s.ReadHeaderTimeout, s.IdleTimeout = l.header, l.idle
	return s
}

// size is a number of bytes.
type size int64

// units are the units of sizes, the largest first.
func units() []struct {
	name  string
	bytes size
} {
	return []struct {
		name  string
		bytes size
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}
}

// mostSize is more than any machine has.
const mostSize = 1 << 40

// Set implements [pflag.Value].
func (s *size) Set(text string) error {
	for _, unit := range units() {
		number, is := strings.CutSuffix(text, unit.name)
		if !is {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n <= 0 || n > mostSize/int64(unit.bytes) {
			break
		}
		*s = size(n) * unit.bytes
		return nil
	}
	return fmt.Errorf("a size is a number of bytes, such as 1000000, 512KiB, 64MiB or 1GiB")
}

// String implements [pflag.Value].
func (s size) String() string {
	for _, unit := range units() {
		if s%unit.bytes == 0 && s != 0 {
			return strconv.FormatInt(int64(s/unit.bytes), 10) + unit.name
		}
	}
	return "0"
}

// Type implements [pflag.Value].
func (s size) Type() string { return "SIZE" }
