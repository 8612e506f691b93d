package docs_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// rule is an alert of alerts.yml.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

type ruleGroup struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

type ruleFile struct {
	Groups []ruleGroup `yaml:"groups"`
}

// watching reads a file of docs/metrics.
func watching(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "metrics", name))
	must(t, err)
	return text
}

// alerts are those of alerts.yml.
func alerts(t *testing.T) (all []rule) {
	t.Helper()
	var file ruleFile
	strict := yaml.NewDecoder(strings.NewReader(string(watching(t, "alerts.yml"))))
	strict.KnownFields(true)
	must(t, strict.Decode(&file))
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) < 15 {
		t.Fatalf("only %d alerts", len(all))
	}
	return all
}

// panel is a part of the dashboard.
type panel struct {
	ID      int    `json:"id"`
	Type    string `json:"type"`
	Title   string `json:"title"`
	GridPos struct{ X, Y, W, H int }
	Targets []struct {
		Expr   string `json:"expr"`
		Legend string `json:"legendFormat"`
		RefID  string `json:"refId"`
	} `json:"targets"`
	Panels []json.RawMessage `json:"panels"`
}

// dashboard returns the panels of the dashboard, and its other expressions.
func dashboard(t *testing.T) (panels []panel, other []string) {
	t.Helper()
	var d struct {
		Panels      []panel `json:"panels"`
		Annotations struct {
			List []struct {
				Expr string `json:"expr"`
			} `json:"list"`
		} `json:"annotations"`
		Templating struct {
			List []struct {
				Name       string `json:"name"`
				Type       string `json:"type"`
				Definition string `json:"definition"`
			} `json:"list"`
		} `json:"templating"`
	}
	must(t, json.Unmarshal(watching(t, "dashboard.json"), &d))
	for _, a := range d.Annotations.List {
		if a.Expr != "" {
			other = append(other, a.Expr)
		}
	}
	kinds := map[string]string{}
	for _, v := range d.Templating.List {
		kinds[v.Name] = v.Type + " " + v.Definition
	}
	if want := map[string]string{"datasource": "datasource ", "instance": "query label_values(sluice_up, instance)"}; !maps.Equal(kinds, want) {
		t.Errorf("the variables are %q, want %q", kinds, want)
	}
	return d.Panels, other
}

// variables replaces variables as Grafana does.
func variables(expr string) string {
	return strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(expr)
}

// selection has the metrics and labels that an expression of Prometheus uses.
type selection struct {
	metrics map[string][]string // the labels by which each is selected
	by      []string            // the labels by which something is grouped
	without []string            // those that are added up
}

var (
	quoted  = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	ranged  = regexp.MustCompile(`\[[^\]]*\]`)
	tokens  = regexp.MustCompile(`[0-9][0-9a-zA-Z.]*|[a-zA-Z_:][a-zA-Z0-9_:]*|\S`)
	grouped = []string{"by", "without", "on", "ignoring"}
	operate = []string{"and", "or", "unless", "offset", "bool", "sum", "count", "max", "min", "avg"}
)

// parseExpression reads an expression; promtool checks that it is valid.
func parseExpression(expr string) selection {
	a := selection{metrics: map[string][]string{}}
	words := tokens.FindAllString(ranged.ReplaceAllString(quoted.ReplaceAllString(expr, `""`), ""), -1)
	for i := 0; i < len(words); i++ {
		word, next := words[i], ""
		if i+1 < len(words) {
			next = words[i+1]
		}
		switch {
		case slices.Contains(grouped, word):
			labels := until(words[i+1:], ")")
			if word == "without" || word == "ignoring" {
				a.without = append(a.without, labels...)
			} else {
				a.by = append(a.by, labels...)
			}
			i += len(labels) + 2
		case !isName(word) || slices.Contains(operate, word) || next == "(":
		default:
			a.metrics[word] = append(a.metrics[word], nil...)
			if next == "{" {
				a.metrics[word] = append(a.metrics[word], until(words[i+1:], "}")...)
				i += slices.Index(words[i:], "}")
			}
		}
	}
	return a
}

func isName(word string) bool { return regexp.MustCompile(`^[a-zA-Z_:]`).MatchString(word) }

// until returns the names up to a word.
func until(words []string, end string) (names []string) {
	for _, word := range words[:slices.Index(words, end)] {
		if isName(word) {
			names = append(names, word)
		}
	}
	return names
}

func TestParseExpression_AllParts_HasNamesAndLabels(t *testing.T) {
	a := parseExpression(`sum by (job, le) (rate(a_total{x=~"b|{",y="c"}[1d] offset 1h)) > 4e2 * sum without (z) (b) and time() - c unless on (job) d{} or a_total`)
	want := map[string][]string{"a_total": {"x", "y"}, "b": nil, "c": nil, "d": nil}
	if !maps.EqualFunc(a.metrics, want, slices.Equal[[]string]) || !slices.Equal(a.by, []string{"job", "le", "job"}) || !slices.Equal(a.without, []string{"z"}) {
		t.Errorf("%+v", a)
	}
}

// known returns the labels of all metrics that an expression may use: those of the ledger, of
// Prometheus and of node_exporter.
func known(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{
		"up":                          {},
		"ALERTS":                      {"alertname", "alertstate", "severity"},
		"node_filesystem_avail_bytes": {"device", "fstype", "mountpoint"},
		"node_filesystem_size_bytes":  {"device", "fstype", "mountpoint"},
	}
	for name, m := range servedNow(t) {
		if m.kind != "histogram" {
			all[name] = m.labels
			continue
		}
		all[name+"_count"], all[name+"_sum"], all[name+"_bucket"] = m.labels, m.labels, append([]string{"le"}, m.labels...)
	}
	for name, labels := range all {
		all[name] = append([]string{"job", "instance"}, labels...)
	}
	return all
}

// check reports a fault in an expression, or in the labels that are shown for its results.
func check(all map[string][]string, expr string, shown []string) error {
	a := parseExpression(variables(expr))
	var labels []string
	for name, by := range a.metrics {
		has, is := all[name]
		if !is {
			return fmt.Errorf("nothing serves %s: %s", name, expr)
		}
		for _, label := range by {
			if !slices.Contains(has, label) {
				return fmt.Errorf("%s has no label %s: %s", name, label, expr)
			}
		}
		labels = append(labels, has...)
	}
	for _, label := range slices.Concat(a.by, a.without) {
		if !slices.Contains(labels, label) {
			return fmt.Errorf("nothing has the label %s: %s", label, expr)
		}
	}
	for _, label := range shown {
		if !slices.Contains(labels, label) || slices.Contains(a.without, label) || len(a.by) > 0 && !slices.Contains(a.by, label) {
			return fmt.Errorf("the label %s is shown, and not there: %s", label, expr)
		}
	}
	if len(a.metrics) == 0 {
		return fmt.Errorf("it uses no metric: %s", expr)
	}
	return nil
}

func TestCheckExpression_UnknownNameOrLabel_IsAnError(t *testing.T) {
	all := map[string][]string{"a": {"job", "x"}, "b": {"job"}}
	for expr, shown := range map[string]string{`a{x="1"} > 1`: "x", `sum by (x) (a)`: "x", `sum without (x) (a) / b`: "job"} {
		if err := check(all, expr, []string{shown}); err != nil {
			t.Error(err)
		}
	}
	for expr, shown := range map[string]string{`c`: "job", `b{x="1"}`: "job", `sum by (y) (a)`: "job", `b`: "x", `sum by (job) (a)`: "x", `sum without (x) (a)`: "x", `vector(1)`: "job"} {
		if check(all, expr, []string{shown}) == nil {
			t.Errorf("no fault in %s, of which %s is shown", expr, shown)
		}
	}
}

var (
	legendLabel = regexp.MustCompile(`\{\{ *(\w+) *\}\}`)
	alertLabel  = regexp.MustCompile(`\$labels\.(\w+)`)
)

func labelsIn(pattern *regexp.Regexp, text string) (names []string) {
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	return names
}

// Alerts and the dashboard use only metrics that are served.
func TestWatching_EachExpression_UsesServedMetrics(t *testing.T) {
	all := known(t)
	for _, alert := range alerts(t) {
		if err := check(all, alert.Expr, labelsIn(alertLabel, alert.Annotations["summary"]+alert.Annotations["description"])); err != nil {
			t.Errorf("%s: %v", alert.Alert, err)
		}
	}
	panels, other := dashboard(t)
	for _, p := range panels {
		for _, target := range p.Targets {
			if err := check(all, target.Expr, labelsIn(legendLabel, target.Legend)); err != nil {
				t.Errorf("%s: %v", p.Title, err)
			}
		}
	}
	for _, expr := range other {
		if err := check(all, expr, nil); err != nil {
			t.Error(err)
		}
	}
}

// The dashboard, with the alerts, shows every metric that the ledger serves.
func TestDashboard_EachServedMetric_IsShown(t *testing.T) {
	var exprs strings.Builder
	panels, _ := dashboard(t)
	for _, p := range panels {
		for _, target := range p.Targets {
			exprs.WriteString(target.Expr + "\n")
		}
	}
	for name := range servedNow(t) {
		if strings.HasPrefix(name, "sluice_") && !regexp.MustCompile(name+`(_bucket|_count)?[^\w]`).MatchString(exprs.String()) {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// Panels have unique numbers, titles and expressions, and lie beside each other in a grid that is
// 24 wide.
func TestDashboard_Panels_AreNumberedAndDoNotOverlap(t *testing.T) {
	panels, _ := dashboard(t)
	ids, taken, rows, graphs := map[int]bool{}, map[[2]int]string{}, 0, 0
	for _, p := range panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" || len(p.Panels) > 0 {
			t.Errorf("panel %d %q: its number is not unique, or it has no title, or panels in it", p.ID, p.Title)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			rows++
		} else if graphs++; len(p.Targets) == 0 {
			t.Errorf("%s has no expression", p.Title)
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if refs[target.RefID] || target.RefID == "" || target.Legend == "" {
				t.Errorf("%s: %q has a reference that is not unique, or no legend", p.Title, target.Expr)
			}
			refs[target.RefID] = true
		}
		at := p.GridPos
		if at.X < 0 || at.Y < 0 || at.W <= 0 || at.H <= 0 || at.X+at.W > 24 {
			t.Errorf("%s lies at %+v", p.Title, at)
			continue
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s and %s overlap", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	if rows < 5 || graphs < 10 {
		t.Errorf("%d rows, %d panels", rows, graphs)
	}
}

// Each alert has a severity, a summary and instructions; the page has it.
func TestAlerts_EachAlert_IsDescribedOnThePage(t *testing.T) {
	page, names := howto(t), map[string]bool{}
	for _, a := range alerts(t) {
		if names[a.Alert] || len(a.Annotations) != 2 || len(a.Annotations["summary"]) < 20 || len(a.Annotations["description"]) < 60 {
			t.Errorf("%s is there twice, or its texts are too short: %v", a.Alert, a.Annotations)
		}
		names[a.Alert] = true
		severity := a.Labels["severity"]
		if !slices.Contains([]string{"critical", "warning", "info"}, severity) || len(a.Labels) != 1 {
			t.Errorf("%s has the labels %v", a.Alert, a.Labels)
		}
		if !strings.Contains(page, fmt.Sprintf("\n| `%s` | %s | ", a.Alert, severity)) {
			t.Errorf("the page has no row of %s, %s", a.Alert, severity)
		}
	}
	if n := strings.Count(page, "\n| `Sluice"); n != len(names) {
		t.Errorf("the page has %d alerts, and there are %d", n, len(names))
	}
}
