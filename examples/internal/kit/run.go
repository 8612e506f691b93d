package kit

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Document is the path of the API document, from which the client in TypeScript is generated. Like
// all paths of this package it is relative to the directory of an example, where its tests run.
const Document = "../../docs/reference/openapi.json"

// Output runs an example with the command of a host, for at most five minutes. It returns what both
// print, and the error of the example. They print to one file in dir, so that the lines are in
// order.
func Output(ctx context.Context, dir string, example func(context.Context, []string, *os.File) error,
	host ...string) (string, error) {
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		return "", err
	}
	defer out.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	failed := example(ctx, host, out)
	text, err := os.ReadFile(out.Name())
	if err != nil {
		return "", err
	}
	return string(text), failed
}

// TypeScript compiles the programs in TypeScript in dir, and returns the directory of the results.
// It needs the network, or the cache of npm.
func TypeScript(ctx context.Context, dir string) (build string, err error) {
	const from = "../served/typescript/"
	for _, name := range []string{
		from + "package.json", from + "package-lock.json", from + "tsconfig.json",
		from + "sluice.ts", from + "host.ts", from + "tour.ts", Document,
	} {
		text, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600); err != nil {
			return "", err
		}
	}
	for _, args := range [][]string{{"ci", "--ignore-scripts", "--no-audit", "--no-fund"}, {"run", "build"}} {
		command := exec.CommandContext(ctx, "npm", args...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			return "", fmt.Errorf("npm %v: %w\n%s", args, err, out)
		}
	}
	return filepath.Join(dir, "build"), nil
}
