package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger/ledgerclient"
)

// tlsFiles are the flags for TLS. The zero value is none.
type tlsFiles struct {
	// The server's certificate and its key, in PEM. They are read for each connection, so that they
	// can be renewed.
	Cert string `flag:"tls-cert,reads,needs=tls-key"`
	Key  string `flag:"tls-key,reads,needs=tls-cert"`
	// the certificates that a client's must be signed by; "" asks for none
	ClientCA string `flag:"client-ca,reads,needs=tls-cert"`
}

// listenOn listens on an address: unix:PATH, for the owner of this process only, or HOST:PORT.
// Without TLS the host must be this machine. bound returns the listener as one whose connections
// are bounded; TLS is on top of that.
func listenOn(ctx context.Context, address string, s tlsFiles, f *input.Files,
	bound func(net.Listener) net.Listener) (net.Listener, error) {
	config, err := s.config(ctx, f)
	if err != nil {
		return nil, err
	}
	path, isSocket, err := ledgerclient.SocketPath(address)
	if err != nil {
		return nil, output.UsageError("", "--listen: %w", err)
	}
	if isSocket {
		if config != nil {
			return nil, output.UsageError("leave out --tls-cert, --tls-key and --client-ca",
				"a Unix socket has no TLS: only its owner may connect to it")
		}
		l, err := ListenUnix(path)
		if err != nil {
			return nil, err
		}
		return bound(l), nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, output.UsageError("", "--listen is neither unix:PATH nor HOST:PORT")
	}
	if config == nil && !loopback(host) {
		return nil, output.UsageError("give --tls-cert and --tls-key, or listen on 127.0.0.1",
			"without TLS only this machine may be listened to, and %q is more", host)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	l = bound(l)
	if config != nil {
		l = tls.NewListener(l, config)
	}
	return l, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// config returns what TLS needs, or nil if there is to be none.
func (s tlsFiles) config(ctx context.Context, f *input.Files) (*tls.Config, error) {
	if s == (tlsFiles{}) {
		return nil, nil
	}
	for _, path := range []string{s.Cert, s.Key} {
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return nil, output.UsageError("",
				"--tls-cert, --tls-key: %q is not a regular file, and is read again for each connection", path)
		}
	}
	load := func(ctx context.Context) (*tls.Certificate, error) {
		pair, err := input.Pair(ctx, f, s.Cert, s.Key)
		return &pair, err
	}
	if _, err := load(ctx); err != nil {
		return nil, output.InputError("", "--tls-cert, --tls-key: %w", err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return load(hello.Context()) },
	}
	if s.ClientCA != "" {
		pool, err := input.Pool(ctx, f, "--client-ca", s.ClientCA)
		if err != nil {
			return nil, err
		}
		config.ClientCAs, config.ClientAuth = pool, tls.RequireAndVerifyClientCert
	}
	return config, nil
}

// ListenUnix listens on a ListenUnix socket that only its owner may connect to, from the first
// moment on: it is made in a directory that no other user can enter, and then moved to its path.
// The socket that a dead server left there is replaced; any other is an error, and so is a link,
// which is neither followed nor replaced. Of two servers that start at one path at the same time,
// one gets it.
func ListenUnix(path string) (net.Listener, error) {
	l, err := unix(path)
	var classed *output.Error
	if err != nil && !errors.As(err, &classed) {
		return nil, fmt.Errorf("cannot make the socket %q: %w", path, output.Cause(err))
	}
	return l, err
}

func unix(path string) (_ net.Listener, err error) {
	unlock, err := lock(path)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := abandoned(path); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	made := filepath.Join(dir, "s")
	defer func() { err = ledgerfile.Renamed(err, path, made) }()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("%w (a Unix socket's path has at most about 100 bytes)", err)
	}
	l.SetUnlinkOnClose(false)
	info, err := os.Lstat(made)
	if err = errors.Join(err, os.Chmod(made, 0o600), os.Rename(made, path)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &unixListener{UnixListener: l, path: path, info: info}, nil
}

// abandoned returns an error unless nothing is at a path but, perhaps, the socket of a server that
// has died: nothing listens there any more.
func abandoned(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return &output.Error{Kind: "exists", Code: output.ExitMisuse, Hint: "give --listen another path",
			Err: fmt.Errorf("%q exists already, and is no socket", path)}
	}
	c, err := net.Dial("unix", path)
	switch {
	case err == nil:
		_ = c.Close()
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil
	}
	return inUse("another server listens there", path)
}

// lockWait is how long a server waits for the lock of its socket's directory. Another server holds
// it while it looks for a server at its path and takes the path, which takes some milliseconds.
const lockWait = 10 * time.Second

// lock locks the directory of a socket, so that no other server takes or leaves a path in it
// concurrently. Nothing is written. Where directories cannot be locked it does nothing.
func lock(path string) (unlock func(), err error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	err = ledgerfile.Lock(dir, true, lockWait, inUse("another process has locked the directory of the socket, "+
		"as a server does that starts: try again, or listen in a directory that only this user can read", path))
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return func() { _ = dir.Close() }, nil // which unlocks it
}

func inUse(hint, path string) error {
	return &output.Error{Kind: "in-use", Code: output.ExitInUse, Hint: hint,
		Err: fmt.Errorf("the socket %q is in use", path)}
}

// unixListener removes its socket when it is closed.
type unixListener struct {
	*net.UnixListener
	path string
	info fs.FileInfo // of the socket
	once sync.Once
}

// Close implements [net.Listener].
func (l *unixListener) Close() error {
	l.once.Do(l.remove)
	return l.UnixListener.Close()
}

// remove removes the socket, but not another one that was put in its place.
func (l *unixListener) remove() {
	unlock, err := lock(l.path)
	if err != nil {
		return // the socket is abandoned then
	}
	defer unlock()
	if info, err := os.Lstat(l.path); err == nil && os.SameFile(info, l.info) {
		_ = os.Remove(l.path) // else it is abandoned
	}
}
