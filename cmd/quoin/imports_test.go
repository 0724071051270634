package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/quoin-hpc/quoin/"

// TestImports holds the rules of which package may bring in which, over all
// dependencies, so that none comes in through another.
func TestImports(t *testing.T) {
	heavy := []string{"k8s.io/", "sigs.k8s.io/", "github.com/prometheus/", "github.com/NVIDIA/", "github.com/spf13/cobra"}
	rules := []struct {
		pkg string
		// own are the packages of ours that it may depend on.
		own []string
		// only, where not nil, are all modules from elsewhere that it may use.
		only []string
		deny []string
	}{
		{pkg: "topology", only: []string{}},
		{pkg: "topology/placement", own: []string{"topology"}, only: []string{}},
		{pkg: "topology/placement/blocksize", only: []string{}},
		{pkg: "topology/placement/division", own: []string{"topology", "topology/placement/blocksize", "topology/placement/names"}, only: []string{}},
		{pkg: "topology/placement/names", own: []string{"topology"}, only: []string{}},
		{pkg: "topology/placement/tree", own: []string{"topology", "topology/placement/names"}, only: []string{}},
		{pkg: "topology/nodelabels", own: []string{"topology"}, only: []string{}},
		{pkg: "topology/simulated", own: []string{"topology"}, only: []string{"gopkg.in/yaml.v3"}},
		{pkg: "topology/nodereport", own: []string{"topology"}, deny: []string{"github.com/prometheus/", "github.com/NVIDIA/"}},
		{pkg: "topology/picture", own: []string{"topology", "topology/placement", "slurmconf/hostlist"}, only: []string{}},
		{pkg: "topology/nvml", own: []string{"topology"}, only: []string{"github.com/NVIDIA/go-nvml/"}},
		{pkg: "slurmconf/hostlist", only: []string{}},
		{pkg: "slurmconf", own: []string{"slurmconf/hostlist", "topology", "topology/placement"}, only: []string{"gopkg.in/yaml.v3"}},
		{pkg: "slurmconf/gres", own: []string{"slurmconf", "slurmconf/hostlist", "topology", "topology/placement"}, only: []string{"gopkg.in/yaml.v3"}},
		{pkg: "slurmconf/fit", own: []string{"slurmconf/hostlist", "topology"}, only: []string{"gopkg.in/yaml.v3"}},
		{pkg: "slurmconf/lint", own: []string{"slurmconf", "slurmconf/gres", "slurmconf/hostlist", "topology", "topology/placement"}, only: []string{"gopkg.in/yaml.v3"}},
		{pkg: "slurmconf/slurmctld", own: []string{"slurmconf", "slurmconf/gres", "slurmconf/hostlist", "slurmconf/lint", "topology", "topology/placement"}, only: []string{"gopkg.in/yaml.v3"}},
		{pkg: "slurmconf/slurmctld/live", own: []string{"slurmconf/slurmctld", "slurmconf", "slurmconf/gres", "slurmconf/hostlist", "slurmconf/lint", "topology", "topology/placement"}, only: []string{"gopkg.in/yaml.v3"}},
		{pkg: "slurmconf/publisher/inputs", own: []string{"topology", "topology/nodelabels", "slurmconf/hostlist"}, deny: []string{"k8s.io/client-go/", "github.com/prometheus/", "github.com/NVIDIA/"}},
		{pkg: "slurmconf/publisher/again", only: []string{}},
		{pkg: "slurmconf/publisher/nodestatus", own: []string{"slurmconf/publisher/again", "slurmconf/publisher/inputs", "slurmconf/publisher/published", "slurmconf/hostlist", "imex", "topology", "topology/nodelabels", "topology/placement"}, deny: []string{"github.com/NVIDIA/"}},
		{pkg: "slurmconf/publisher/published", own: []string{"topology"}, only: []string{}},
		{pkg: "slurmconf/publisher/plandoc", own: []string{"topology", "topology/placement", "slurmconf", "slurmconf/gres", "slurmconf/hostlist"}, only: []string{"gopkg.in/yaml.v3"}},
		{pkg: "slurmconf/publisher/first", own: []string{"slurmconf/publisher/plandoc", "slurmconf/publisher/publication", "slurmconf/publisher/published", "slurmconf/publisher/inputs", "topology", "topology/nodelabels", "topology/placement", "slurmconf", "slurmconf/gres", "slurmconf/hostlist"}, deny: []string{"k8s.io/client-go/", "github.com/prometheus/", "github.com/NVIDIA/"}},
		{pkg: "slurmconf/publisher/loaded", own: []string{"slurmconf/slurmctld/live", "slurmconf/slurmctld", "slurmconf/lint", "slurmconf/publisher/again", "slurmconf/publisher/plandoc", "slurmconf/publisher/publication", "slurmconf/publisher/published", "slurmconf/publisher/inputs", "topology", "topology/nodelabels", "topology/placement", "slurmconf", "slurmconf/gres", "slurmconf/hostlist"}, deny: []string{"k8s.io/client-go/", "github.com/NVIDIA/"}},
		{pkg: "slurmconf/publisher/annotation", own: []string{"slurmconf/slurmctld/live", "slurmconf/slurmctld", "slurmconf/lint", "slurmconf/publisher/loaded", "slurmconf/publisher/again", "slurmconf/publisher/plandoc", "slurmconf/publisher/publication", "slurmconf/publisher/published", "slurmconf/publisher/inputs", "slurmconf/publisher/nodestatus", "topology", "topology/nodelabels", "topology/placement", "slurmconf", "slurmconf/gres", "slurmconf/hostlist", "imex"}, deny: []string{"github.com/NVIDIA/"}},
		{pkg: "slurmconf/publisher/renaming", own: []string{"topology", "topology/placement", "slurmconf", "slurmconf/gres", "slurmconf/hostlist"}, deny: []string{"k8s.io/client-go/", "github.com/prometheus/", "github.com/NVIDIA/"}},
		{pkg: "slurmconf/publisher/guard", own: []string{"slurmconf/publisher/plandoc", "slurmconf/publisher/publication", "slurmconf/publisher/published", "slurmconf/publisher/inputs", "topology", "topology/nodelabels", "topology/placement", "slurmconf", "slurmconf/gres", "slurmconf/hostlist"}, deny: []string{"k8s.io/client-go/", "github.com/prometheus/", "github.com/NVIDIA/"}},
		{pkg: "slurmconf/publisher/publication", own: []string{"slurmconf/publisher/published", "slurmconf/publisher/inputs", "topology", "topology/nodelabels", "topology/placement", "slurmconf", "slurmconf/gres", "slurmconf/hostlist"}, deny: []string{"k8s.io/client-go/", "github.com/prometheus/", "github.com/NVIDIA/"}},
		{pkg: "slurmconf/publisher/dir", own: []string{"dcgm/atomicfile", "slurmconf/publisher/again", "slurmconf/publisher/published", "slurmconf/publisher/plandoc", "topology/placement", "slurmconf", "slurmconf/gres", "slurmconf/publisher/inputs", "topology", "topology/nodelabels", "slurmconf/hostlist"}, deny: []string{"k8s.io/client-go/", "github.com/prometheus/", "github.com/NVIDIA/"}},
		{pkg: "slurmconf/publisher/kube", own: []string{"topology/nodereport", "slurmconf/publisher/again", "slurmconf/publisher/publication", "slurmconf/publisher/published", "slurmconf/publisher/plandoc", "slurmconf/publisher/inputs", "topology", "topology/nodelabels", "topology/placement", "slurmconf", "slurmconf/gres", "slurmconf/hostlist", "imex", "imex/computedomain", "imex/computedomain/apihealth"}, deny: []string{"github.com/prometheus/", "github.com/NVIDIA/"}},
		{pkg: "slurmconf/layout", own: []string{"slurmconf", "slurmconf/fit", "slurmconf/hostlist", "slurmconf/lint", "slurmconf/slurmctld", "slurmconf/slurmctld/live", "slurmconf/gres", "topology", "topology/placement"}, deny: []string{"k8s.io/", "github.com/prometheus/", "github.com/NVIDIA/"}},
		{pkg: "slurmconf/publisher/occupancy", own: []string{"slurmconf", "slurmconf/fit", "slurmconf/layout", "slurmconf/hostlist", "slurmconf/lint", "slurmconf/slurmctld", "slurmconf/slurmctld/live", "slurmconf/gres", "slurmconf/publisher/again", "slurmconf/publisher/publication", "slurmconf/publisher/published", "slurmconf/publisher/inputs", "topology", "topology/nodelabels", "topology/placement"}, deny: []string{"k8s.io/client-go/", "github.com/NVIDIA/"}},
		{pkg: "slurmconf/publisher/segments", own: []string{"slurmconf/fit", "slurmconf", "slurmconf/hostlist", "topology", "topology/placement"}, deny: []string{"k8s.io/", "github.com/NVIDIA/"}},
		{pkg: "slurmconf/publisher/page", own: []string{"slurmconf/layout", "slurmconf/lint", "slurmconf/slurmctld", "slurmconf/slurmctld/live", "slurmconf/publisher/occupancy", "topology/picture", "topology", "topology/placement", "topology/nodelabels", "slurmconf", "slurmconf/gres", "slurmconf/hostlist", "slurmconf/fit", "slurmconf/publisher/again", "slurmconf/publisher/inputs", "slurmconf/publisher/nodestatus", "slurmconf/publisher/plandoc", "slurmconf/publisher/publication", "slurmconf/publisher/published", "imex"}, deny: []string{"github.com/NVIDIA/"}},
		{pkg: "slurmconf/publisher", own: []string{"slurmconf/publisher/segments", "slurmconf/publisher/occupancy", "slurmconf/layout", "slurmconf/fit", "slurmconf/slurmctld/live", "slurmconf/slurmctld", "slurmconf/publisher/loaded", "slurmconf/publisher/annotation", "slurmconf/publisher/first", "slurmconf/publisher/renaming", "slurmconf/publisher/guard", "slurmconf/publisher/publication", "slurmconf/publisher/published", "slurmconf/publisher/plandoc", "slurmconf/publisher/again", "slurmconf/publisher/nodestatus", "slurmconf/publisher/inputs", "topology", "topology/placement", "topology/nodelabels", "slurmconf", "slurmconf/gres", "slurmconf/hostlist", "slurmconf/lint", "imex"}, deny: []string{"github.com/NVIDIA/"}},
		{pkg: "imex", own: []string{"topology"}, only: []string{}},
		{pkg: "imex/gate", own: []string{"imex", "topology", "slurmconf/hostlist", "dcgm/atomicfile"}, only: []string{"golang.org/x/sys/"}},
		{pkg: "imex/local", own: []string{"topology"}, only: []string{}},
		{pkg: "imex/computedomain/apihealth", deny: []string{"github.com/NVIDIA/"}},
		{pkg: "imex/computedomain", own: []string{"imex", "imex/computedomain/apihealth", "topology"}, deny: []string{"github.com/NVIDIA/"}},
		{pkg: "dcgm/atomicfile", only: []string{"golang.org/x/sys/"}},
		{pkg: "dcgm", own: []string{"dcgm/atomicfile", "topology"}, only: []string{"golang.org/x/sys/"}},
		{pkg: "nodeagent/rundir", own: []string{"dcgm", "dcgm/atomicfile", "topology"}, only: []string{"github.com/gofrs/flock", "golang.org/x/sys/"}},
		{pkg: "dcgm/hostengine", own: []string{"dcgm", "dcgm/atomicfile", "topology"}, only: []string{"github.com/NVIDIA/go-dcgm/", "github.com/bits-and-blooms/bitset", "github.com/stretchr/testify/", "go.yaml.in/yaml/v3", "golang.org/x/sys/"}},
		{pkg: "cmd/quoin/plan", own: []string{"cmd/quoin/terminal", "slurmconf/publisher/plandoc", "slurmconf/publisher/published", "topology", "topology/placement", "topology/placement/names", "slurmconf", "slurmconf/gres", "slurmconf/hostlist"}, only: []string{"golang.org/x/sys/", "gopkg.in/yaml.v3"}},
		{pkg: "cmd/quoin/reports", own: []string{"slurmconf/publisher/inputs", "topology", "topology/nodelabels", "slurmconf/hostlist"}, deny: []string{"k8s.io/client-go/", "github.com/prometheus/", "github.com/NVIDIA/"}},
		{pkg: "cmd/quoin/findings", own: []string{"slurmconf", "slurmconf/gres", "slurmconf/hostlist", "slurmconf/lint", "topology", "topology/placement"}, deny: []string{"k8s.io/", "github.com/prometheus/", "github.com/NVIDIA/"}},
		{pkg: "cmd/quoin/comparison", own: []string{"cmd/quoin/findings", "imex", "slurmconf", "slurmconf/gres", "slurmconf/hostlist", "slurmconf/lint", "slurmconf/publisher/again", "slurmconf/publisher/inputs", "slurmconf/publisher/loaded", "slurmconf/publisher/plandoc", "slurmconf/publisher/publication", "slurmconf/publisher/published", "slurmconf/slurmctld", "slurmconf/slurmctld/live", "topology", "topology/nodelabels", "topology/placement"}, deny: []string{"k8s.io/client-go/", "github.com/NVIDIA/", "github.com/spf13/cobra"}},
		{pkg: "cmd/quoin/fitting", own: []string{"cmd/quoin/terminal", "slurmconf/hostlist", "topology", "topology/placement/blocksize", "topology/placement/names", "topology/placement/division", "topology/placement/tree", "topology/placement", "slurmconf", "slurmconf/fit", "topology/nodelabels", "slurmconf/publisher/inputs", "slurmconf/gres", "slurmconf/publisher/plandoc", "slurmconf/lint", "slurmconf/slurmctld", "slurmconf/slurmctld/live"}, deny: []string{"k8s.io/client-go/", "github.com/prometheus/", "github.com/NVIDIA/"}},
		{pkg: "cmd/quoin/placing", own: []string{"nodeagent/jobs/report", "nodeagent/rundir", "dcgm", "dcgm/atomicfile", "slurmconf", "slurmconf/fit", "slurmconf/gres", "slurmconf/hostlist", "slurmconf/layout", "slurmconf/lint", "slurmconf/publisher/plandoc", "slurmconf/slurmctld", "slurmconf/slurmctld/live", "topology", "topology/placement"}, deny: []string{"k8s.io/client-go/", "github.com/prometheus/", "github.com/NVIDIA/"}},
		{pkg: "cmd/quoin/terminal", only: []string{"golang.org/x/sys/"}},
		{pkg: "cmd/quoin/listing", deny: []string{"github.com/NVIDIA/", "github.com/prometheus/"}},
		{pkg: "cmd/quoin/usage", only: []string{"github.com/spf13/"}},
		{pkg: "nodeagent/hook", own: []string{"dcgm", "dcgm/atomicfile", "nodeagent/rundir", "imex", "topology", "imex/gate", "slurmconf/hostlist"}, only: []string{"github.com/gofrs/flock", "golang.org/x/sys/"}},
		{pkg: "cmd/version", only: []string{}},
		{pkg: "cmd/quoin-hook", own: []string{"cmd/version", "nodeagent/hook", "dcgm", "dcgm/atomicfile", "nodeagent/rundir", "imex", "topology", "imex/gate", "slurmconf/hostlist"}, deny: heavy},
		{pkg: "nodeagent/probe", own: []string{"topology"}, only: []string{}},
		{pkg: "nodeagent/jobs/liveness", own: []string{"dcgm", "dcgm/atomicfile", "nodeagent/rundir", "topology"}, only: []string{"github.com/gofrs/flock", "golang.org/x/sys/"}},
		{pkg: "nodeagent/jobs/sweep", own: []string{"nodeagent/jobs/liveness", "dcgm", "dcgm/atomicfile", "nodeagent/rundir", "topology"}, only: []string{"github.com/gofrs/flock", "golang.org/x/sys/"}},
		{pkg: "nodeagent/jobs", own: []string{"nodeagent/jobs/liveness", "nodeagent/jobs/sweep", "dcgm", "dcgm/atomicfile", "nodeagent/rundir", "topology"}, deny: []string{"github.com/NVIDIA/", "k8s.io/", "sigs.k8s.io/", "github.com/spf13/cobra"}},
		{pkg: "nodeagent/jobs/report", own: []string{"dcgm", "dcgm/atomicfile", "nodeagent/rundir", "topology"}, only: []string{"github.com/gofrs/flock", "golang.org/x/sys/"}},
		{pkg: "nodeagent", own: []string{"topology/nodereport", "nodeagent/probe", "nodeagent/rundir", "dcgm/atomicfile", "topology", "topology/placement", "topology/nodelabels", "slurmconf", "slurmconf/hostlist", "imex", "dcgm", "imex/gate"}, deny: []string{"github.com/NVIDIA/"}},
	}
	deps := dependencies(t)
	for _, r := range rules {
		var inPlacement []string // who may use the plan may use what it is made of
		if r.pkg == "topology/placement" || slices.Contains(r.own, "topology/placement") {
			inPlacement = []string{"topology/placement/blocksize", "topology/placement/division", "topology/placement/names", "topology/placement/tree"}
		}
		t.Run(r.pkg, func(t *testing.T) {
			list, ok := deps[module+r.pkg]
			if !ok {
				t.Fatal("no such package")
			}
			for _, d := range list {
				name, ours := strings.CutPrefix(d, module)
				has := func(prefix string) bool { return strings.HasPrefix(d+"/", prefix) }
				switch {
				case ours && !slices.Contains(r.own, name) && !slices.Contains(inPlacement, name):
					t.Errorf("depends on %s, allowed are %v", name, r.own)
				case ours || !strings.Contains(strings.Split(d, "/")[0], "."):
				case slices.ContainsFunc(r.deny, has), r.only != nil && !slices.ContainsFunc(r.only, has):
					t.Errorf("depends on %s", d)
				}
			}
		})
	}
	for pkg, list := range deps {
		if pkg != module+"topology/nvml" && pkg != module+"cmd/quoin/machine" && pkg != module+"cmd/quoin" && slices.ContainsFunc(list, func(d string) bool { return strings.HasPrefix(d, "github.com/NVIDIA/go-nvml/") }) {
			t.Errorf("%s depends on go-nvml; only topology/nvml and cmd/quoin/machine may", pkg)
		}
		if pkg != module+"dcgm/hostengine" && pkg != module+"cmd/quoin" && slices.ContainsFunc(list, func(d string) bool { return strings.HasPrefix(d, "github.com/NVIDIA/go-dcgm/") }) {
			t.Errorf("%s depends on go-dcgm; only dcgm/hostengine may", pkg)
		}
		for _, word := range []string{"util", "utils", "common", "types", "helpers"} {
			if strings.HasSuffix(pkg, "/"+word) {
				t.Errorf("package %s: a name that says nothing", pkg)
			}
		}
	}
}

// dependencies returns all dependencies of every package of the module.
func dependencies(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Deps", module+"...")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	deps := map[string][]string{}
	for dec := json.NewDecoder(out); ; {
		var p struct {
			ImportPath string
			Deps       []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		deps[p.ImportPath] = p.Deps
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return deps
}
