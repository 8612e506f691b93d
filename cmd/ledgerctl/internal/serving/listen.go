package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/httpapi"
	"github.com/sluicedp/sluice/internal/ledgerfile"
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
	path, isSocket, err := httpapi.SocketPath(address)
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
	if config == nil && !httpapi.IsLoopback(host) {
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

// ListenUnix is [ledgerfile.ListenUnix], with the errors of the command.
func ListenUnix(path string) (net.Listener, error) {
	l, err := ledgerfile.ListenUnix(path)
	occupied, is := errors.AsType[*ledgerfile.SocketError](err)
	switch {
	case is && occupied.InUse:
		err = &output.Error{Kind: "in-use", Code: output.ExitInUse, Hint: occupied.Why, Err: err}
	case is:
		err = &output.Error{Kind: "exists", Code: output.ExitMisuse, Hint: "give --listen another path", Err: err}
	case err != nil:
		err = fmt.Errorf("cannot make the socket %q: %w", path, output.Cause(err))
	}
	return l, err
}
