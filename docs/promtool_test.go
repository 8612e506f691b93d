package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluicedp/sluice/internal/testenv"
)

// promtool returns the tool of Prometheus: $PROMTOOL, or the one in the path.
func promtool(t *testing.T) string {
	t.Helper()
	name := os.Getenv("PROMTOOL")
	if name == "" {
		name = "promtool"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		testenv.Unsupported(t, "there is no promtool, which is in Debian's package prometheus: "+err.Error())
	}
	return path
}

// run runs promtool in a folder, and returns its output.
func run(t *testing.T, tool, dir, input string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tool, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// copied makes a folder with the files of docs/metrics, and a token.
func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join(root(t), "docs", "metrics"))))
	must(t, os.WriteFile(filepath.Join(dir, "sluice.token"), []byte("sluice_token\n"), 0o600))
	return dir
}

// Names and texts follow the rules of Prometheus.
func TestPromtool_ServedMetrics_HaveNoFaults(t *testing.T) {
	tool := promtool(t)
	now, _ := worked(t)
	if out, err := run(t, tool, "", now, "check", "metrics"); err != nil || out != "" {
		t.Errorf("%v:\n%s", err, out)
	}
	spoiled := strings.ReplaceAll(now, "sluice_sales_total", "sluice_sales")
	if out, err := run(t, tool, "", spoiled, "check", "metrics"); err == nil {
		t.Errorf("no fault in a counter with the name sluice_sales: %s", out)
	}
}

func TestPromtool_Configuration_HasAllRules(t *testing.T) {
	tool := promtool(t)
	out, err := run(t, tool, copied(t), "", "check", "config", "prometheus.yml")
	if want := fmt.Sprintf("%d rules found", len(alerts(t))); err != nil || !strings.Contains(out, want) {
		t.Errorf("%v, want %s:\n%s", err, want, out)
	}
}

// testFiles are the tests of the alerts: those that cover minutes, and those that cover days.
func testFiles() []string { return []string{"alerts_test.yml", "alerts_days_test.yml"} }

func TestPromtool_TestsOfAlerts_Pass(t *testing.T) {
	tool := promtool(t)
	for _, name := range testFiles() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := run(t, tool, copied(t), "", "test", "rules", name); err != nil {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
}

// Every expression of the dashboard is valid.
func TestPromtool_ExpressionsOfDashboard_AreValid(t *testing.T) {
	tool, dir := promtool(t), t.TempDir()
	panels, exprs := dashboard(t)
	for _, p := range panels {
		for _, target := range p.Targets {
			exprs = append(exprs, target.Expr)
		}
	}
	type record struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var all []record
	for i, expr := range exprs {
		all = append(all, record{fmt.Sprintf("panel:expr%d", i), variables(expr)})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": all}}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "dashboard.yml"), text, 0o600))
	out, err := run(t, tool, dir, "", "check", "rules", "dashboard.yml")
	if want := fmt.Sprintf("%d rules found", len(exprs)); err != nil || len(exprs) < 20 || !strings.Contains(out, want) {
		t.Errorf("%v, want %s:\n%s", err, want, out)
	}
}

// tested is a test of promtool's.
type tested struct {
	Name   string   `yaml:"name"`
	Series []series `yaml:"input_series"`
	Checks []struct {
		Expr    string `yaml:"expr"`
		Samples []struct {
			Labels string `yaml:"labels"`
		} `yaml:"exp_samples"`
	} `yaml:"promql_expr_test"`
}

// series is what a test begins with.
type series struct {
	Series string `yaml:"series"`
}

// tests returns the tests of a file.
func tests(t *testing.T, name string) []tested {
	t.Helper()
	var file struct {
		Tests []tested `yaml:"tests"`
	}
	must(t, yaml.Unmarshal(watching(t, name), &file))
	if len(file.Tests) == 0 {
		t.Fatalf("%s has no tests", name)
	}
	return file.Tests
}

var (
	inAlerts = regexp.MustCompile(`^ALERTS\{alertname="(\w+)",alertstate="firing"\}$`)
	instance = regexp.MustCompile(`instance="([^"]*)"`)
)

// Each alert has a test in which it begins to fire, and one in which it does not fire although much
// is the same.
func TestAlerts_EachAlert_IsTestedBothWays(t *testing.T) {
	fires, quiet, spared := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, name := range testFiles() {
		for _, test := range tests(t, name) {
			for _, check := range test.Checks {
				match := inAlerts.FindStringSubmatch(check.Expr)
				if match == nil || !strings.HasPrefix(test.Name, match[1]+": ") {
					t.Fatalf("%s: %q has another expression: %s", name, test.Name, check.Expr)
				}
				alert, whom := match[1], map[string]bool{}
				for _, sample := range check.Samples {
					whom[strings.Join(instance.FindStringSubmatch(sample.Labels), " ")] = true
				}
				fires[alert] = fires[alert] || len(whom) > 0
				quiet[alert] = quiet[alert] || len(whom) == 0
				spared[alert] = spared[alert] || slices.ContainsFunc(test.Series, func(s series) bool {
					return !whom[strings.Join(instance.FindStringSubmatch(s.Series), " ")]
				})
			}
		}
	}
	for _, a := range alerts(t) {
		if !fires[a.Alert] || !quiet[a.Alert] || !spared[a.Alert] {
			t.Errorf("%s: fires %v, does not yet %v, does not for others %v", a.Alert, fires[a.Alert], quiet[a.Alert], spared[a.Alert])
		}
	}
}

// An alert that never fires, or always, or at once, or at half of a number in it or at twice that,
// fails its tests.
func TestAlerts_WrongExpression_FailsItsTests(t *testing.T) {
	tool := promtool(t)
	if !testenv.Deep() || testenv.Short() {
		t.Skip("every alert is tested once: its faults are tried with SLUICE_DEEP=1")
	}
	for _, a := range alerts(t) {
		t.Run(a.Alert, func(t *testing.T) {
			t.Parallel()
			dir := copied(t)
			files := only(t, dir, a.Alert)
			for what, spoiled := range faults(t, a) {
				must(t, os.WriteFile(filepath.Join(dir, "alerts.yml"), spoiled, 0o600))
				if out, err := run(t, tool, dir, "", append([]string{"test", "rules"}, files...)...); err == nil {
					t.Errorf("%s: its tests still pass: %s", what, out)
				} else if !strings.Contains(out, "FAILED") || !strings.Contains(out, "got:") {
					t.Errorf("%s: %v:\n%s", what, err, out)
				}
			}
		})
	}
}

// only leaves the tests of one alert in a folder, and returns their files.
func only(t *testing.T, dir, alert string) (files []string) {
	t.Helper()
	for _, name := range testFiles() {
		var file map[string]any
		must(t, yaml.Unmarshal(watching(t, name), &file))
		all, ok := file["tests"].([]any)
		if !ok {
			t.Fatalf("%s has no tests", name)
		}
		all = slices.DeleteFunc(all, func(test any) bool {
			fields, ok := test.(map[string]any)
			return !ok || !strings.HasPrefix(fmt.Sprint(fields["name"]), alert+": ")
		})
		if len(all) == 0 {
			continue
		}
		file["tests"] = all
		left, err := yaml.Marshal(file)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, name), left, 0o600))
		files = append(files, name)
	}
	return files
}

// aNumber is a number of an expression that could be another: no label, quantile, or name has it.
var aNumber = regexp.MustCompile(`([<>*-] |, )([0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?)\b`)

// faults are files with one alert in them, which has a fault.
func faults(t *testing.T, a rule) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	add := func(what, expr, lasting string) {
		spoiled := a
		spoiled.Expr, spoiled.For = expr, lasting
		out, err := yaml.Marshal(ruleFile{Groups: []ruleGroup{{Name: "spoiled", Rules: []rule{spoiled}}}})
		must(t, err)
		found[what] = out
	}
	add("never", "("+a.Expr+") and on () vector(1) == 2", a.For)
	add("always", `group by (job, instance) ({job=~".+"})`, a.For)
	if a.For != "" {
		add("at once", a.Expr, "0s")
	}
	for _, at := range aNumber.FindAllStringSubmatchIndex(a.Expr, -1) {
		number := a.Expr[at[4]:at[5]]
		if number == "0" || number == "1" {
			continue
		}
		for _, by := range []string{"0.5", "2"} {
			add(fmt.Sprintf("%s times %s", number, by), a.Expr[:at[4]]+"("+number+" * "+by+")"+a.Expr[at[5]:], a.For)
		}
	}
	return found
}
