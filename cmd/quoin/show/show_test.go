package show

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

func TestGroup(t *testing.T) {
	got := Groups([]topology.Finding{
		{Subject: topology.Subject{Node: "a2"}, Reason: "TierLabelsMissing", Message: "m"},
		{Subject: topology.Subject{Node: "a1"}, Reason: "NoGresLine", Message: "m"},
		{Reason: "TierLabelsMissing", Message: "m"},
		{Subject: topology.Subject{Node: "a10"}, Reason: "TierLabelsMissing", Message: "m"},
		{Subject: topology.Subject{Node: "a1"}, Reason: "TierLabelsMissing", Message: "m"},
		{Subject: topology.Subject{Node: "a1"}, Reason: "TierLabelsMissing", Message: "m"},
		{Subject: topology.Subject{Node: "a1"}, Reason: "TierLabelsMissing", Message: "another"},
	})
	want := []Group{
		{Nodes: []string{"a1", "a2", "a10"}, Reason: "TierLabelsMissing", Message: "m"},
		{Nodes: []string{"a1"}, Reason: "NoGresLine", Message: "m"},
		{Reason: "TierLabelsMissing", Message: "m"},
		{Nodes: []string{"a1"}, Reason: "TierLabelsMissing", Message: "another"},
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
		units = append(units, topology.Finding{Subject: topology.Subject{Thing: fmt.Sprintf("block at place %d", i)}, Reason: "UnitDiffers", Message: "m"})
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
