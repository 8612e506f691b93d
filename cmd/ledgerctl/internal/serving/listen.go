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

// tlsFiles are the flags for TLS. The zero value means no TLS.
type tlsFiles struct {
	// The certificate of the server and its key, in PEM. They are read for each connection, so that
	// they can be renewed.
	Cert string `flag:"tls-cert,reads,needs=tls-key"`
	Key  string `flag:"tls-key,reads,needs=tls-cert"`
	// the authorities that must have signed a client's certificate; "" requires no certificate
	ClientCA string `flag:"client-ca,reads,needs=tls-cert"`
}

// listenOn listens on an address: unix:PATH, for the owner of this process only, or HOST:PORT.
// Without TLS the host must be this machine. limited wraps the listener with limits of connections,
// below TLS.
func listenOn(ctx context.Context, address string, s tlsFiles, f *input.Files,
	limited func(net.Listener) net.Listener) (net.Listener, error) {
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
			return nil, output.UsageError("omit --tls-cert, --tls-key and --client-ca",
				"TLS is not possible on a Unix socket, to which only its owner may connect")
		}
		l, err := ListenUnix(path)
		if err != nil {
			return nil, err
		}
		return limited(l), nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, output.UsageError("", "--listen is neither unix:PATH nor HOST:PORT")
	}
	if config == nil && !httpapi.IsLoopback(host) {
		return nil, output.UsageError("give --tls-cert and --tls-key, or listen on 127.0.0.1",
			"without TLS only connections from this machine are allowed, and %q allows others", host)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	l = limited(l)
	if config != nil {
		l = tls.NewListener(l, config)
	}
	return l, nil
}

// config returns the TLS configuration, or nil for no TLS. It loads the certificate and its key
// once to check them, and again for each connection.
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

// ListenUnix is [ledgerfile.ListenUnix] with the kinds and hints of the command's errors.
func ListenUnix(path string) (net.Listener, error) {
	l, err := ledgerfile.ListenUnix(path)
	occupied, is := errors.AsType[*ledgerfile.SocketError](err)
	switch {
	case is && occupied.InUse:
		err = &output.Error{Kind: "in-use", Code: output.ExitInUse, Hint: occupied.Why, Err: err}
	case is:
		err = &output.Error{Kind: "exists", Code: output.ExitMisuse, Hint: "give --listen another path", Err: err}
	case err != nil:
		err = fmt.Errorf("cannot create the socket %q: %w", path, output.Cause(err))
	}
	return l, err
}
