package show

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

func TestGroup(t *testing.T) {
	got := Groups([]topology.Finding{
		{Subject: topology.Subject{Node: "a2"}, Reason: "NoSwitch", Message: "m"},
		{Subject: topology.Subject{Node: "a1"}, Reason: "NoGresLine", Message: "m"},
		{Reason: "NoSwitch", Message: "m"},
		{Subject: topology.Subject{Node: "a10"}, Reason: "NoSwitch", Message: "m"},
		{Subject: topology.Subject{Node: "a1"}, Reason: "NoSwitch", Message: "m"},
		{Subject: topology.Subject{Node: "a1"}, Reason: "NoSwitch", Message: "m"},
		{Subject: topology.Subject{Node: "a1"}, Reason: "NoSwitch", Message: "another"},
	})
	want := []Group{
		{Nodes: []string{"a1", "a2", "a10"}, Reason: "NoSwitch", Message: "m"},
		{Nodes: []string{"a1"}, Reason: "NoGresLine", Message: "m"},
		{Reason: "NoSwitch", Message: "m"},
		{Nodes: []string{"a1"}, Reason: "NoSwitch", Message: "another"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPrintFindings(t *testing.T) {
	of := func(n int, message func(i int) string) (out []topology.Finding) {
		for i := range n {
			out = append(out, topology.Finding{Subject: topology.Subject{Node: fmt.Sprintf("n%04d", i)}, Reason: "NotReady", Message: message(i), Remedy: "wait"})
		}
		return out
	}
	own := func(i int) string { return fmt.Sprintf("index %d", i) }
	var lines, units []topology.Finding
	for i := range 10 {
		lines = append(lines, topology.Finding{Subject: topology.Subject{File: "gres.conf", Line: i + 1}, Reason: "UnknownNode", Message: "m", Remedy: "a"})
		units = append(units, topology.Finding{Subject: topology.Subject{Thing: fmt.Sprintf("block at place %d", i)}, Reason: "SlurmDiffers", Message: "m"})
	}
	far := of(10000, func(int) string { return "one" })
	for i := range far {
		far[i].Node = fmt.Sprintf("gke-pool-%04d-x%c", i, 'a'+i%20)
	}
	for name, tt := range map[string]struct {
		all  []topology.Finding
		want []string
	}{
		"no node":          {nil, nil},
		"alike":            {of(10000, func(int) string { return "one" }), []string{"n[0000-9999]: NotReady: one", "  fix: wait"}},
		"a few messages":   {of(4, func(i int) string { return own(i % 2) }), []string{"n[0000,0002]: NotReady: index 0", "  fix: wait", "n[0001,0003]: NotReady: index 1", "  fix: wait"}},
		"as many as lines": {of(maxLines, own)[maxLines-1:], []string{"n0007: NotReady: index 7", "  fix: wait"}},
		"many messages":    {of(10000, own), []string{"n[0000-9999]: NotReady: n0000: index 0, and more of the kind", "  fix: wait"}},
		"lines of a file": {lines, []string{"gres.conf:1: warning: m (UnknownNode); a", "gres.conf:2: warning: m (UnknownNode); a", "gres.conf:3: warning: m (UnknownNode); a", "gres.conf:4: warning: m (UnknownNode); a",
			"gres.conf:5: warning: m (UnknownNode); a", "gres.conf:6: warning: m (UnknownNode); a", "gres.conf:7: warning: m (UnknownNode); a", "gres.conf:8: warning: m (UnknownNode); a", "and 2 more UnknownNode"}},
		"not judged": {[]topology.Finding{{Subject: topology.Subject{Node: "n1"}, Severity: topology.Unknown, Reason: "ReportUnreadable", Message: "m"}}, []string{"unknown: n1: ReportUnreadable: m"}},
		"units":      {units[:2], []string{"block at place 0: m", "block at place 1: m"}},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			Print(&b, "", tt.all)
			var got []string
			for line := range strings.Lines(b.String()) {
				got = append(got, strings.TrimSuffix(line, "\n"))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	var b strings.Builder
	Print(&b, "", far)
	if text := b.String(); len(text) > maxList+200 || !strings.Contains(text, " more: NotReady: one\n") || !strings.HasPrefix(text, "gke-pool-0000-xa,gke-pool-0001-xb,") {
		t.Errorf("%d bytes of names that do not fold:\n%.300s", len(text), text)
	}
}

func TestResult(t *testing.T) {
	at := func(s topology.Severity, reason string) topology.Finding {
		return topology.Finding{Subject: topology.Subject{Thing: "agents"}, Severity: s, Reason: reason, Message: "m", Remedy: "r"}
	}
	for name, tt := range map[string]struct {
		found []topology.Finding
		code  ExitCode
		last  string
	}{
		"nothing":           {nil, Fine, "sum"},
		"fine":              {[]topology.Finding{at(topology.OK, ""), at(topology.Warning, "A")}, Fine, "sum"},
		"a fault":           {[]topology.Finding{at(topology.Unknown, "A"), at(topology.Fatal, "B"), at(topology.Warning, "C")}, Differs, "sum"},
		"not judged":        {[]topology.Finding{at(topology.Unknown, "B"), at(topology.Warning, "C"), at(topology.Unknown, "A"), at(topology.Unknown, "A")}, NotKnown, "not known: 3 of the above could not be judged: A, B"},
		"not seen, no word": {[]topology.Finding{at(topology.Unknown, "")}, NotKnown, "not known: 1 of the above could not be judged: agents"},
	} {
		r := &Result{Kind: "K", Summary: []string{"first", "sum"}, Findings: tt.found}
		for form, print := range map[string]func(io.Writer) ExitCode{"text": r.Print, "table": r.Table} {
			var b strings.Builder
			if code := print(&b); code != tt.code || !strings.HasSuffix(b.String(), "\n"+tt.last+"\n") && b.String() != "first\nsum\n" {
				t.Errorf("%s as %s: %v, want %v with the last line %q:\n%s", name, form, code, tt.code, tt.last, &b)
			}
		}
		var b strings.Builder
		if err := r.JSON(&b); !errors.Is(err, tt.code.AsError()) || !strings.Contains(b.String(), fmt.Sprintf("%q: %q", "result", tt.code)) {
			t.Errorf("%s as JSON: %v, want %v:\n%s", name, err, tt.code, &b)
		}
	}
}

func TestTable(t *testing.T) {
	r := &Result{Summary: []string{"sum"}, Findings: []topology.Finding{
		{Subject: topology.Subject{Thing: "agents"}, Severity: topology.OK, Message: "2 agents are ready"},
		{Subject: topology.Subject{Thing: "leases"}, Severity: topology.Unknown, Message: "forbidden", Remedy: "ask"},
		{Subject: topology.Subject{Thing: "hook"}, Severity: topology.Fatal, Message: "does not run", Remedy: "quoin install-hook"}}}
	var b strings.Builder
	if code := r.Table(&b); code != Differs {
		t.Errorf("exit code %v, want %v", code, Differs)
	}
	want := "fatal    hook         does not run\n                      fix: quoin install-hook\nunknown  leases       forbidden\n                      fix: ask\nok       agents       2 agents are ready\n\nsum\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, want := Counts(r.Findings), "fatal: 1, warnings: 0, unknown: 1, ok: 1"; got != want {
		t.Errorf("counts %q, want %q", got, want)
	}
}

// TestJSON holds the form of the document that scripts read.
func TestJSON(t *testing.T) {
	r := &Result{Kind: "CheckResult", Summary: []string{"differs"}, Findings: []topology.Finding{
		{Subject: topology.Subject{Node: "n2"}, Severity: topology.Fatal, Reason: "NotInSlurm", Message: "m", Remedy: "r"},
		{Subject: topology.Subject{Node: "n1"}, Severity: topology.Fatal, Reason: "NotInSlurm", Message: "m", Remedy: "r"},
		{Subject: topology.Subject{File: "gres.conf", Line: 3}, Reason: "UnknownKey", Message: "k"}}}
	var b strings.Builder
	if err := r.JSON(&b); !errors.Is(err, Differs) {
		t.Error(err)
	}
	const want = `{"apiVersion":"quoin.dev/v1alpha1","kind":"CheckResult","result":"differs","summary":["differs"],"findings":[` +
		`{"severity":"fatal","reason":"NotInSlurm","nodes":["n1","n2"],"message":"m","remedy":"r"},` +
		`{"severity":"warning","reason":"UnknownKey","file":"gres.conf","line":3,"message":"k"}]}`
	var got bytes.Buffer
	if err := json.Compact(&got, []byte(b.String())); err != nil || got.String() != want {
		t.Errorf("%v\n got %s\nwant %s", err, got.String(), want)
	}
}
