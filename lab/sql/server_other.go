//go:build !unix

package main

import (
	"context"
	"errors"
)

// server is a private PostgreSQL server, which this program starts on Unix only.
type server struct{}

func startServer(context.Context, string) (*server, error) {
	return nil, errors.New("this program starts PostgreSQL on Unix only")
}

func (*server) socket() string { return "" }

func (*server) standby(context.Context, string) (*server, error) { return nil, errors.ErrUnsupported }

func (*server) waits(context.Context, string) error { return errors.ErrUnsupported }

func (*server) stop() error { return nil }

func (*server) fresh(context.Context, string) (string, error) { return "", errors.ErrUnsupported }
