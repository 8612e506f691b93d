package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// The table has the first 100 vertices and all regions. JSON has all vertices.
func TestMechanismSolve_ManyVertices_TableIsShortened(t *testing.T) {
	dir := t.TempDir()
	nodes, edges := filepath.Join(dir, "nodes.csv"), filepath.Join(dir, "edges.csv")
	var v, e strings.Builder
	fmt.Fprint(&v, "id,color\n0,a\n")
	fmt.Fprint(&e, "source,target\n")
	for i := 1; i < 150; i++ {
		fmt.Fprintf(&v, "%d,%s\n", i, []string{"a", "b"}[i/75])
		fmt.Fprintf(&e, "%d,%d\n", i-1, i)
	}
	for file, text := range map[string]string{nodes: v.String(), edges: e.String()} {
		check.Must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	args := []string{"mechanism", "solve", "--nodes", nodes, "--edges", edges, "--color-column", "color", "--epsilon", "0.01", "--balanced"}
	table := mustInvoke(t, args...)
	if !strings.HasSuffix(table, "\n… and 50 more; --json lists all\n") || strings.Count(table, "\n") != 5+2+150+2+100+1 {
		t.Errorf("the table is\n%s", table)
	}
	if object := mustInvoke(t, append(args, "--json")...); strings.Count(object, `"id":`) != 150 {
		t.Errorf("the object is %s", object)
	}
}
