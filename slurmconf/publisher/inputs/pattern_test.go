package inputs

import (
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/placement"
)

func TestPatternNames(t *testing.T) {
	const aws = `s/ip-(?:\d+-){2}(\d+)-(?P<host>\d+)\..+/gpu${1}x-$host/`
	for _, c := range []struct{ how, node, want, reason string }{
		{aws, "ip-10-0-12-7.eu-west-1.compute.internal", "gpu12x-7", ""},
		{aws, "control-plane-1", aws + " gives no name: it must match", ReasonNoSlurmName},
		{`s/(.+)-gpu-(\d+)/$2$1/`, "a-gpu-7", "7a", ""},
		{`s/(.*)x/$1/`, "x", `s/(.*)x/$1/ gives no name`, ReasonNoSlurmName},
		{`s/(.+)/$1[1-2]/`, "a", `s/(.+)/$1[1-2]/`, ReasonNoSlurmName},
		{`s/a:(.+)|b(.+)/n$1$2/`, "b7", "n7", ""},
	} {
		g := rules(t, Config{SlurmNames: c.how}).Gather(&Snapshot{Nodes: []Node{{Name: c.node}}})
		switch {
		case c.reason != "" && (len(g.Unnamed) != 1 || g.Unnamed[0].Reason != c.reason || !strings.Contains(g.Unnamed[0].Message, c.want)):
			t.Errorf("%s of %s: %+v, want %s", c.how, c.node, g.Unnamed, c.reason)
		case c.reason == "" && (len(g.Facts) != 1 || g.Facts[0].SlurmName != c.want):
			t.Errorf("%s of %s: %+v, want %s", c.how, c.node, g.Facts, c.want)
		}
	}
	for how, want := range map[string]string{
		"s/a":            `slurmNames: "s/a": want s/REGEXP/REPLACEMENT/`,
		"s//b/":          "want s/REGEXP/REPLACEMENT/",
		"s/a/b/g":        "want s/REGEXP/REPLACEMENT/",
		"s/a//":          "want s/REGEXP/REPLACEMENT/",
		"s/a(/b/":        "want a regular expression of RE2",
		"s/a/$1/":        `"$1": the expression has no group "1"`,
		"s/(a)/$1x/":     `no group "1x"; where letters follow a number write ${1}`,
		"s/(a)/${name}/": `no group "name"`,
	} {
		var got []string
		NewRules(Config{SlurmNames: how}, func(key, message string) { got = append(got, key+": "+message) })
		if len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: %q, want %q", how, got, want)
		}
	}
}

// FuzzPatternNames takes any text for a pattern and a node's name.
func FuzzPatternNames(f *testing.F) {
	f.Add(`s/(.+)-gpu-(\d+)/$2$1/`, "a-gpu-7")
	f.Add(`s/a(/${x}/`, "")
	f.Fuzz(func(t *testing.T, how, node string) {
		if !isPattern(how) {
			how = "s/" + how
		}
		wrong := false
		r := NewRules(Config{SlurmNames: how}, func(string, string) { wrong = true })
		if wrong {
			return
		}
		g := r.Gather(&Snapshot{Nodes: []Node{{Name: node}}})
		if len(g.Facts)+len(g.Unnamed) != 1 {
			t.Errorf("%q of %q: %+v", how, node, g)
		}
		new(fabric.Site).Judge(g.Facts)
		if _, _, err := placement.MakePlan(placement.Observed{Facts: g.Facts}, placement.Previous{}, placement.Policy{}); err != nil {
			t.Errorf("%q of %q: %v", how, node, err)
		}
	})
}
