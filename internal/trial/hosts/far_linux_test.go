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

// place is a network of its own.
type place struct {
	name string
	ip   string
}

func (p place) command(args ...string) []string {
	return append([]string{"ip", "netns", "exec", p.name}, args...)
}

// places makes two networks with a cable between them, or says that it cannot.
func places(t *testing.T) (a, b place) {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		testenv.Unsupported(t, "there is no ip (Debian: apt-get install iproute2)")
	}
	a = place{fmt.Sprint("sluice-", os.Getpid(), "-a"), "10.231.0.1"}
	b = place{fmt.Sprint("sluice-", os.Getpid(), "-b"), "10.231.0.2"}
	for _, p := range []place{a, b} {
		if out, err := exec.CommandContext(t.Context(), "ip", "netns", "add", p.name).CombinedOutput(); err != nil {
			testenv.Unsupported(t, fmt.Sprintf("no networks of one's own: %v: %s", err, out))
		}
		t.Cleanup(func() { run(t, "ip", "netns", "del", p.name) })
	}
	run(t, "ip", "link", "add", "cable", "netns", a.name, "type", "veth", "peer", "name", "cable", "netns", b.name)
	for _, p := range []place{a, b} {
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

// relay starts one in a place, and returns when it listens.
func relay(t *testing.T, in place, from, to string, trip time.Duration) {
	t.Helper()
	args := in.command(os.Args[0])
	c := exec.Command(args[0], args[1:]...)
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %v", asRelay, from, to, trip))
	c.Stderr = os.Stderr
	out := check.Value(c.StdoutPipe())(t)
	check.Must(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	check.Need(t, line == "ready\n", "a relay says %q: %v", line, err)
}

// Two hosts are far from each other, and the database is with one of them. They take over from each
// other; and when the cable is cut while the far one writes, the near one goes on, and the far one
// finds out.
func TestHostsFarFromEachOther(t *testing.T) {
	t.Parallel() // it waits, mostly
	for _, trip := range []time.Duration{1 * time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		if trip != 10*time.Millisecond && !testenv.Deep() {
			continue
		}
		t.Run(trip.String(), func(t *testing.T) { farApart(t, trip) })
	}
}

func farApart(t *testing.T, trip time.Duration) {
	here, there := places(t)
	s := pgtest.StartIn(t, here.command(), "listen_addresses="+here.ip)
	s.Database(t, "journals")
	relay(t, there, "127.0.0.1:5432", here.ip+":5432", trip)
	relay(t, there, "127.0.0.1:7444", here.ip+":7443", trip)
	relay(t, there, "127.0.0.1:7445", here.ip+":7446", trip)
	relay(t, here, "127.0.0.1:7444", there.ip+":7443", trip)
	authority, dir := pgtest.NewAuthority(t), testenv.TempDir(t)
	setting := func(name, listen, database string, peers map[string]string) setting {
		x := setting{
			Dir: filepath.Join(dir, name), Name: name, Database: database + " user=postgres dbname=journals sslmode=disable", Listen: listen,
			Peers: peers, Timeout: 2*time.Second + 50*trip,
		}
		check.Must(t, os.Mkdir(x.Dir, 0o700))
		authority.Files(x.Dir, name, net.ParseIP(here.ip), net.ParseIP(there.ip))
		return x
	}
	// A third host keeps keys, so that the near one can go on without the far one.
	near := setting("near", here.ip+":7443", "host="+here.ip+" port=5432", map[string]string{"far": "https://127.0.0.1:7444", "third": "https://" + here.ip + ":7446"})
	far := setting("far", there.ip+":7443", "host=127.0.0.1 port=5432", map[string]string{"near": "https://127.0.0.1:7444", "third": "https://127.0.0.1:7445"})
	third := setting("third", here.ip+":7446", "host="+here.ip+" port=5432", map[string]string{"near": "https://" + here.ip + ":7443"})
	newFile(t, near.file())
	start(t, third, here.command()...)
	a, b := start(t, near, here.command()...), start(t, far, there.command()...)
	a.do(command{Do: "open"})
	copyFile(t, near.file(), far.file())

	var all toldByKey
	calls := func(h *host, from, n int) time.Duration {
		began := time.Now()
		for i := range n {
			c := release((from+i)%hostPeople, fmt.Sprint(1+(from+i)/hostPeople))
			all.note(c, h.do(c))
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
	t.Logf("with %v between: a call of the near host %v, of the far one %v; taken over after %v", trip, nearCall, farCall, takeover)
	a.fails(release(0, "800"), "stopped")
	check.That(t, farCall >= trip, "a call takes %v, though the database is %v away", farCall, trip)

	// The cable is cut while the far host writes.
	end := all.load(b, 10*hostPeople)
	time.Sleep(3 * trip)
	run(t, here.command("ip", "link", "set", "cable", "down")...)
	a.do(command{Do: "close"})
	a.do(command{Do: "open"})
	calls(a, 20*hostPeople, 5)
	cut := <-b.ask(release(1, "850"))
	check.That(t, strings.Contains(cut.Kind, "stopped") || strings.Contains(cut.Kind, "rejected"),
		"who is cut off: %+v", cut)
	end()
	run(t, here.command("ip", "link", "set", "cable", "up")...)
	b.fails(release(1, "851"), "stopped")
	all.check(a)
	b.do(command{Do: "close"})
	await(t, "the far host comes through again", func() bool { return (<-b.ask(command{Do: "open"})).Kind == "" })
	calls(b, 25*hostPeople, 5)
	all.check(b)
	b.do(command{Do: "verify"})
}
