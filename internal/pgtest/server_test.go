//go:build unix

package pgtest

import (
	"testing"
	"time"
)

func TestTime(t *testing.T) {
	b := time.Now()
	s := Start(t)
	t.Log("start", time.Since(b))
	b = time.Now()
	a := s.Standby(t, "a")
	t.Log("standby", time.Since(b))
	s.Waits(t, "a")
	s.Exec(t, "postgres", "CREATE TABLE x(a int); INSERT INTO x VALUES (1)")
	s.Streaming(t, "a")
	b = time.Now()
	s.Crash(t)
	a.Promote(t)
	t.Log("promote", time.Since(b))
	t.Log(a.Exec(t, "postgres", "SELECT a FROM x"))
	a.Stop(t)
	a.Begin(t)
	a.Stop(t)
}
