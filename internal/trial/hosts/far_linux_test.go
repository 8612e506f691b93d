package hosts

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pgtest"
	"github.com/sluicedp/sluice/internal/testenv"
)

// network is a network namespace.
type network struct {
	name string
	ip   string
}

func (n network) command(args ...string) []string {
	return append([]string{"ip", "netns", "exec", n.name}, args...)
}

// networks creates two connected networks. If the machine does not allow it, the test ends.
func networks(t *testing.T) (a, b network) {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		testenv.Unsupported(t, "find the program ip: not installed (Debian: apt-get install iproute2)")
	}
	a = network{fmt.Sprint("sluice-", os.Getpid(), "-a"), "10.231.0.1"}
	b = network{fmt.Sprint("sluice-", os.Getpid(), "-b"), "10.231.0.2"}
	for _, p := range []network{a, b} {
		if out, err := exec.CommandContext(t.Context(), "ip", "netns", "add", p.name).CombinedOutput(); err != nil {
			testenv.Unsupported(t, fmt.Sprintf("create a network namespace: %v: %s", err, out))
		}
		t.Cleanup(func() { run(t, "ip", "netns", "del", p.name) })
	}
	run(t, "ip", "link", "add", "cable", "netns", a.name, "type", "veth", "peer", "name", "cable", "netns", b.name)
	for _, p := range []network{a, b} {
		run(t, p.command("ip", "address", "add", p.ip+"/30", "dev", "cable")...)
		run(t, p.command("ip", "link", "set", "lo", "up")...)
		run(t, p.command("ip", "link", "set", "cable", "up")...)
	}
	return a, b
}

func run(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	check.Need(t, err == nil, "%v: %v: %s", args, err, out)
}

// relay starts a relay in a network, and returns when it listens.
func relay(t *testing.T, in network, from, to string, trip time.Duration) {
	t.Helper()
	args := in.command(os.Args[0])
	c := exec.Command(args[0], args[1:]...)
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %v", asRelay, from, to, trip))
	c.Stderr = os.Stderr
	out := check.Value(c.StdoutPipe())(t)
	check.Must(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // an error is expected: the process was killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	check.Need(t, line == "ready\n", "the relay prints %q, want ready: %v", line, err)
}

// Two hosts are distant from each other, and the database is near one of them. Each takes over from
// the other. When the network is cut while the far host writes, the near one continues, and the far
// one learns that it has lost the ledger.
func TestHosts_FarApart_TakeOverFromEachOther(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, trip := range []time.Duration{1 * time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		if trip != 10*time.Millisecond && !testenv.Deep() {
			continue
		}
		t.Run(trip.String(), func(t *testing.T) { farApart(t, trip) })
	}
}

func farApart(t *testing.T, trip time.Duration) {
	here, there := networks(t)
	s := pgtest.StartIn(t, here.command(), "listen_addresses="+here.ip)
	s.Database(t, "journals")
	relay(t, there, "127.0.0.1:5432", here.ip+":5432", trip)
	relay(t, there, "127.0.0.1:7444", here.ip+":7443", trip)
	relay(t, there, "127.0.0.1:7445", here.ip+":7446", trip)
	relay(t, here, "127.0.0.1:7444", there.ip+":7443", trip)
	authority, dir := pgtest.NewAuthority(t), testenv.TempDir(t)
	setting := func(name, listen, database string, peers map[string]string) setting {
		one := setting{
			Dir: filepath.Join(dir, name), Name: name, Database: database + " user=postgres dbname=journals sslmode=disable", Listen: listen,
			Peers: peers, Timeout: 2*time.Second + 50*trip,
		}
		check.Must(t, os.Mkdir(one.Dir, 0o700))
		authority.Files(one.Dir, name, net.ParseIP(here.ip), net.ParseIP(there.ip))
		return one
	}
	// A third host keeps keys, so that the near host can continue without the far one.
	near := setting("near", here.ip+":7443", "host="+here.ip+" port=5432", map[string]string{"far": "https://127.0.0.1:7444", "third": "https://" + here.ip + ":7446"})
	far := setting("far", there.ip+":7443", "host=127.0.0.1 port=5432", map[string]string{"near": "https://127.0.0.1:7444", "third": "https://127.0.0.1:7445"})
	third := setting("third", here.ip+":7446", "host="+here.ip+" port=5432", map[string]string{"near": "https://" + here.ip + ":7443"})
	newFile(t, near.file())
	start(t, third, here.command()...)
	a, b := start(t, near, here.command()...), start(t, far, there.command()...)
	a.do(command{Do: "open"})
	copyFile(t, near.file(), far.file())

	var all answers
	calls := func(h *host, from, n int) time.Duration {
		began := time.Now()
		for i := range n {
			c := release((from+i)%hostPeople, fmt.Sprint(1+(from+i)/hostPeople))
			all.add(c, h.do(c))
		}
		return time.Since(began) / time.Duration(n)
	}
	calls(a, 0, 1)
	nearCall := calls(a, 1, 20)
	p := &hostPair{a: a, b: b}
	p.follow(t)
	began := time.Now()
	b.do(command{Do: "take over"})
	takeover := time.Since(began)
	farCall := calls(b, 100, 20)
	t.Logf("round trip %v: a call of the near host takes %v, of the far one %v; a takeover %v", trip, nearCall, farCall, takeover)
	a.fails(release(0, "800"), "stopped")
	check.That(t, farCall >= trip, "a call of the far host takes %v, less than a round trip of %v", farCall, trip)

	// The network is cut while the far host writes.
	end := all.load(b, 10*hostPeople)
	time.Sleep(3 * trip)
	run(t, here.command("ip", "link", "set", "cable", "down")...)
	a.do(command{Do: "close"})
	a.do(command{Do: "open"})
	calls(a, 20*hostPeople, 5)
	cut := <-b.ask(release(1, "850"))
	check.That(t, strings.Contains(cut.Kind, "stopped") || strings.Contains(cut.Kind, "rejected"),
		"the far host after the network was cut: %+v", cut)
	end()
	run(t, here.command("ip", "link", "set", "cable", "up")...)
	b.fails(release(1, "851"), "stopped")
	all.check(a)
	b.do(command{Do: "close"})
	await(t, "the far host opens the ledger again", func() bool { return (<-b.ask(command{Do: "open"})).Kind == "" })
	calls(b, 25*hostPeople, 5)
	all.check(b)
	b.do(command{Do: "verify"})
}
