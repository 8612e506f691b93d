package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// describe says what the machine is, as far as it tells. What only Linux tells is left out elsewhere.
func describe(dir string) (string, error) {
	flush, err := flushTime(dir)
	if err != nil {
		return "", err
	}
	facts := []string{
		fact("CPU", lineOf("/proc/cpuinfo", "model name")),
		fact("cores", fmt.Sprint(runtime.NumCPU())),
		fact("memory", lineOf("/proc/meminfo", "MemTotal")),
		fact("system", runtime.GOOS+"/"+runtime.GOARCH+" "+firstLine("/proc/sys/kernel/osrelease")),
		fact("disk", diskOf(dir)),
		fact("writing 4 KiB and syncing them", flush.Round(time.Microsecond).String()),
		fact("Go", runtime.Version()),
	}
	return strings.Join(slices.DeleteFunc(facts, func(f string) bool { return f == "" }), "\n"), nil
}

func fact(name, value string) string {
	if value = strings.TrimSpace(value); value == "" {
		return ""
	}
	return "- " + name + ": " + value
}

// lineOf returns what stands behind a name and a colon in a file of the kernel, or "".
func lineOf(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// diskOf returns the file system and the device that a directory is on, or "".
func diskOf(dir string) string {
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return ""
	}
	device, at, kind := "", "", ""
	for line := range strings.Lines(string(mounts)) {
		part := strings.Fields(line)
		if len(part) >= 3 && len(part[1]) >= len(at) && strings.HasPrefix(dir+"/", strings.TrimSuffix(part[1], "/")+"/") {
			device, at, kind = part[0], part[1], part[2]
		}
	}
	name := filepath.Base(device)
	switch firstLine(filepath.Join("/sys/block", name, "queue/rotational")) {
	case "0":
		name += ", solid state"
	case "1":
		name += ", rotating, or virtual and said to be"
	}
	return kind + " on " + name
}

// flushTime returns the median time that it takes to write a page and sync it.
func flushTime(dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, "flush-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	times := make([]time.Duration, 200)
	page := make([]byte, 4096)
	for i := range times {
		began := time.Now()
		_, err := f.WriteAt(page, int64(i%16)*int64(len(page)))
		if err := errors.Join(err, f.Sync()); err != nil {
			return 0, errors.Join(err, f.Close())
		}
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	return times[len(times)/2], f.Close()
}
