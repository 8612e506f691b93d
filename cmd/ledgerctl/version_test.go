package main

import (
	"runtime/debug"
	"testing"
)

func TestNewVersion_BuildInfo_HasItsFields(t *testing.T) {
	noted := &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2027-01-01T00:00:00Z"}, {Key: "vcs.modified", Value: "true"}, {Key: "GOOS", Value: "plan9"},
	}}
	if got, want := newVersion(noted), (versionResult{"v1.2.3", "abc", "2027-01-01T00:00:00Z", true, "go1.26.0"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := newVersion(nil); got != (versionResult{}) {
		t.Errorf("from nothing: %+v", got)
	}
}
